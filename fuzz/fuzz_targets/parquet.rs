#![no_main]

// The decoder, which is not ours, panics at some files; that is caught, and the file called
// damaged. libFuzzer's hook would end the program before.
libfuzzer_sys::fuzz_target!(
    init: std::panic::set_hook(Box::new(|_| ())),
    |bytes: &[u8]| fuzz_targets::parquet(bytes)
);
