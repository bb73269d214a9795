//! The filter: its language, and the classifier it compiles to.
