//! Tests of the properties of every qdisc against a model, and of the behaviour of each one.

mod codel;
mod config;
mod conformance;
mod drr;
mod dualpi2;
mod fairness;
mod fifo;
mod fq_codel;
mod in_order;
mod model;
mod packet;
mod pi2;
mod pie;
mod plant;
mod priority;
mod sfq;
mod shares;
mod token_bucket;
mod weighted;
