//! The flow log: IPFIX, NetFlow, sFlow and Parquet files.
