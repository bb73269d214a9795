//! Packet formats: checked views and builders.
