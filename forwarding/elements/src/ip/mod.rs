//! See [the library](crate).

mod check_ip_header;
mod dec_ip_ttl;
mod filter;
mod fix_ip_src;
mod get_ip_address;
mod ip_encap;
mod ip_fragmenter;
mod ip_gw_options;
mod ip_input_combo;
mod ip_lookup;
mod ip_mirror;
mod ip_output_combo;
mod ip_print;
mod ip_reassembler;
mod mark_ip_header;
mod route;
mod set_ip_address;
mod set_ip_checksum;
mod store_ip_address;
mod strip_ip_header;
mod traffic_class;
mod unstrip_ip_header;

use graph::Class;

pub(crate) use ip_encap::Destination;

/// The classes of this folder.
pub const CLASSES: &[&Class] = &[
    &check_ip_header::CHECK_IP_HEADER,
    &check_ip_header::CHECK_IP_HEADER2,
    &dec_ip_ttl::CLASS,
    &filter::IP_CLASSIFIER,
    &filter::IP_FILTER,
    &fix_ip_src::CLASS,
    &get_ip_address::CLASS,
    &ip_encap::CLASS,
    &ip_fragmenter::CLASS,
    &ip_gw_options::CLASS,
    &ip_input_combo::CLASS,
    &ip_lookup::CLASSES[0],
    &ip_lookup::CLASSES[1],
    &ip_lookup::CLASSES[2],
    &ip_lookup::CLASSES[3],
    &ip_lookup::CLASSES[4],
    &ip_lookup::CLASSES[5],
    &ip_lookup::CLASSES[6],
    &ip_mirror::CLASS,
    &ip_output_combo::CLASS,
    &ip_print::CLASS,
    &ip_reassembler::CLASS,
    &mark_ip_header::CLASS,
    &set_ip_address::CLASS,
    &set_ip_checksum::CLASS,
    &store_ip_address::CLASS,
    &strip_ip_header::CLASS,
    &traffic_class::MARK_IP_CE,
    &traffic_class::SET_IP_DSCP,
    &traffic_class::SET_IP_ECN,
    &unstrip_ip_header::CLASS,
];
