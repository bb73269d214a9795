//! Traffic: streams of packets made at a wanted rate, and what arrives of them counted, ordered and timed.
