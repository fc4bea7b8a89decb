//! Tests with network namespaces, which need root.

mod ingress;
