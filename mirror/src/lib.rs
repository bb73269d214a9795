//! Keeps the plane's tables equal to Linux's.
