//! Functions made twice: for every processor, and for those that can do more at once.
//!
//! One binary runs everywhere, so it is compiled for what every x86-64 has. The loops that each
//! packet goes through gain by AVX2 (eight numbers at once), BMI (bits counted and shifted in one
//! step) and MOVBE (numbers read in the network's order), which nearly all processors of the last
//! ten years have: together they are called x86-64-v3. What is written inside [`wide!`] is compiled
//! for both, and which of them runs is asked at each call, which is once a batch.

/// Whether the processor has what x86-64-v3 asks for.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn is_v3() -> bool {
    use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
    /// 0 until it is known, 1 for no, 2 for yes.
    static KNOWN: AtomicU8 = AtomicU8::new(0);
    #[cold]
    fn ask() -> u8 {
        let all = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("movbe")
            && is_x86_feature_detected!("popcnt");
        let known = 1 + u8::from(all);
        KNOWN.store(known, Relaxed);
        known
    }
    let known = KNOWN.load(Relaxed);
    (if known == 0 { ask() } else { known }) == 2
}

/// A function that is compiled for every processor and for x86-64-v3. It is never inlined: loops
/// that are together in one function need more registers than there are.
macro_rules! wide {
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident $([$($generic:ident: $bound:path),+])? (
            $($argument:ident: $type:ty),* $(,)?
        ) $(-> $out:ty)? $body:block
    ) => {
        $(#[$meta])*
        #[inline(always)]
        $vis fn $name $(<$($generic: $bound),+>)? ($($argument: $type),*) $(-> $out)? {
            #[inline(always)]
            fn any $(<$($generic: $bound),+>)? ($($argument: $type),*) $(-> $out)? $body
            #[inline(never)]
            fn plain $(<$($generic: $bound),+>)? ($($argument: $type),*) $(-> $out)? {
                any($($argument),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[inline(never)]
            #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,movbe,popcnt")]
            fn v3 $(<$($generic: $bound),+>)? ($($argument: $type),*) $(-> $out)? {
                any($($argument),*)
            }
            #[cfg(target_arch = "x86_64")]
            if $crate::router::wide::is_v3() {
                // SAFETY: the processor has all that.
                return unsafe { v3($($argument),*) };
            }
            plain($($argument),*)
        }
    };
}
pub(super) use wide;
