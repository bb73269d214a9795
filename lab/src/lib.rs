//! Hosts, links and routing daemons in network namespaces.
