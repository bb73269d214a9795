//! The system tests: real hosts, real routing daemons and real packets, in network namespaces.
//!
//! Each file is named as the sentence it proves, and opens with its topology. They need root, and a
//! built `bifrost` beside them (`make test` sees to both). Two of them have the machine at a time,
//! and those about moments have it alone (`network::turn`).
//!
//! `ROUTER=linux cargo test -p system-tests` runs the same tests with Linux alone as the
//! router. A test that fails then expects something that no router does.

mod against_linux;
mod bridged;
mod ethernets;
mod network;
mod redundant;
mod stalls;
mod upstream;

mod a_border_router_is_made_by_a_page;
mod a_changed_neighbour_takes_effect_at_once;
mod a_client_drives_click_by_its_control_socket;
mod a_firewall_of_linux_is_respected;
mod a_flood_at_the_router_does_not_starve_bgp;
mod a_flooded_port_starves_no_other;
mod a_flush_of_nftables_is_undone;
mod a_killed_router_carries_nothing;
mod a_live_screen_ends_with_its_terminal;
mod a_lying_router_is_not_believed;
mod a_refused_reload_changes_nothing;
mod a_restart_keeps_flows_and_their_translation;
mod a_shell_edits_and_commits;
mod a_stop_loses_nothing_that_is_translated;
mod a_stopped_router_leaves_packets_to_linux;
mod a_syn_flood_leaves_established_flows_alone;
mod a_withdrawn_route_stops_within_100_ms;
mod a_worker_that_hangs_takes_only_itself_down;
mod a_wrong_file_is_refused_and_nothing_changes;
mod addresses_come_by_dhcp;
mod an_element_of_ones_own_runs_in_the_router;
mod an_upgrade_loses_nothing;
mod another_router_takes_over;
mod bfd_sessions_are_authenticated;
mod bfd_sessions_of_frr_are_run_here;
mod bgp_learnt_routes_forward;
mod bridged_hosts_pass_filter_and_translation;
mod bridges_are_forwarded;
mod check_and_reload_agree;
mod clicks_ip_router_routes_between_real_hosts;
mod commits_are_whole_or_not_at_all;
mod decided_flows_are_offloaded_to_the_driver;
mod dhcp_is_relayed;
mod directions_of_a_flow_meet_at_different_workers;
mod ecmp_spreads_and_keeps_flows;
mod every_queue_of_a_port_is_served;
mod floods_at_the_router_starve_no_routing_protocol;
mod flows_are_logged_to_files_and_collectors;
mod flows_go_on_at_the_router_that_takes_over;
mod flows_that_are_not_offloaded_pass_all_the_same;
mod fpm_is_a_source_too;
mod frr_is_told_what_the_file_says;
mod ftp_passes_the_filter_and_translation;
mod hosts_behind_a_masquerade_reach_the_world;
mod hosts_find_their_routers;
mod icmp_errors_equal_those_of_linux;
mod icmp_errors_follow_the_settings_of_linux;
mod ipv6_hosts_reach_ipv4_servers;
mod keepalived_and_frr_speak_vrrp_with_bifrost;
mod kill_nine_leaves_linux_forwarding;
mod links_flap_and_interfaces_come_back;
mod linux_is_made_as_the_file_says;
mod linux_judges_what_it_carries_itself;
mod linux_pings_click_behind_a_tun_and_a_tap;
mod linuxs_firewall_is_adopted;
mod linuxs_translation_is_adopted;
mod malformed_packets_by_the_million;
mod malformed_packets_meet_filter_and_translation;
mod multicast_is_forwarded;
mod neighbour_discovery_works_against_linux;
mod odd_packets_meet_what_they_meet_in_linux;
mod other_rules_stop_offloaded_flows_at_once;
mod packets_are_fragmented_on_the_way;
mod packets_are_sampled_for_sflow;
mod ports_in_shared_memory_come_and_go;
mod ports_of_a_pattern_go_with_their_interface;
mod prefixes_are_translated_into_prefixes;
mod programs_commit_by_https;
mod routers_are_joined_by_shared_memory;
mod routes_by_a_lost_gateway_are_repaired_at_once;
mod routes_flap_under_traffic_without_loss;
mod routes_follow_links_that_flap;
mod routes_of_every_kind_forward;
mod routing_rules_are_those_of_linux;
mod rules_decide_what_passes_and_flows_are_known;
mod segments_are_held_down_to_fit_the_way;
mod senders_leave_checksums_to_their_nics;
mod services_are_told_what_the_file_says;
mod sigterm_is_obeyed_while_ports_are_taken;
mod tcp_is_byte_identical_both_families;
mod the_graph_changes_under_traffic_without_loss;
mod traceroute_and_path_mtu_discovery_work;
mod two_interfaces_by_xdp_are_a_wire;
mod two_queues_two_workers;
mod what_bifrost_cannot_do_linux_does;
mod what_is_forwarded_is_seen_by_tcpdump;
mod what_linux_forwards_is_not_policed;
mod what_must_stay_true_is_kept;
mod what_runs_already_becomes_a_file;
mod what_the_readme_says_is_proved;
mod what_was_blocked_stays_blocked_without_the_plane;
