//! Tests of the classifier.

mod live;
