//! Batches, the Element trait and the executor.
