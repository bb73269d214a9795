//! What a program that watches or drives Bifrost needs: the control protocol with its client and its
//! server ([`control`]), the live screen ([`screen`]), the Prometheus endpoint ([`metrics`]) and what a
//! well-behaved service does ([`service`]). The binary of the same name is a thin layer over it, and the
//! demo draws its own screen with it.

pub mod control;
pub mod metrics;
pub mod screen;
pub mod service;
