require(package fastclassifier, compact_config)
require(package "with \"quotes\"", other, );
require();
Idle -> Discard;
