//! router.toml: its model and its checks.
