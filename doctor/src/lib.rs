//! Doctor: is this machine fit to be a router, and what would make it fitter?
