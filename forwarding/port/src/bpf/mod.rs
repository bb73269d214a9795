//! The door to the kernel's bpf(2): its calls, mapped arrays, and the compiled programs of
//! `forwarding/bpf/`.

pub(crate) mod map;
pub(crate) mod object;
pub(crate) mod sys;
