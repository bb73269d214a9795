//! Sets of addresses as prefixes: what two of them have in common, and what one has beside another.

use ipnet::IpNet;

/// What is in both.
pub(crate) fn both(one: &[IpNet], other: &[IpNet]) -> Vec<IpNet> {
    let pairs = one.iter().flat_map(|one| other.iter().map(move |other| (one, other)));
    let meet = |(one, other): (&IpNet, &IpNet)| match (one.contains(other), other.contains(one)) {
        (true, _) => Some(*other),
        (_, true) => Some(*one),
        _ => None,
    };
    IpNet::aggregate(&pairs.filter_map(meet).collect())
}

/// What is in one and not in the other.
pub(crate) fn without(of: &[IpNet], not: &[IpNet]) -> Vec<IpNet> {
    let mut left = IpNet::aggregate(&of.to_vec());
    for gone in not {
        left = left.into_iter().flat_map(|net| beside(net, gone)).collect();
    }
    left
}

/// What is left of a prefix: it is halved until the half that goes is found.
fn beside(mut net: IpNet, gone: &IpNet) -> Vec<IpNet> {
    if gone.contains(&net) {
        return Vec::new();
    }
    let mut left = Vec::new();
    while net != *gone && net.contains(gone) {
        // Longer than `net`, so `net` can be halved.
        let halves = net.subnets(net.prefix_len() + 1).into_iter().flatten();
        let (with, other): (Vec<IpNet>, Vec<IpNet>) = halves.partition(|half| half.contains(gone));
        left.extend(other);
        let [half] = with.as_slice() else { return left };
        net = *half;
    }
    if net != *gone {
        left.push(net);
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nets(text: &str) -> Vec<IpNet> {
        text.split_whitespace().map(|net| net.parse().unwrap()).collect()
    }

    /// The addresses of 10.0.0.0/27, one bit for each.
    fn bits(nets: &[IpNet]) -> u32 {
        (0..32).fold(0, |bits, n| {
            let address = std::net::IpAddr::from([10, 0, 0, n]);
            bits | u32::from(nets.iter().any(|net| net.contains(&address))) << n
        })
    }

    #[test]
    fn they_are_sets() {
        let mut random = chance::Random(7);
        let mut some = || {
            let one = |random: &mut chance::Random| {
                let length = 27 + random.below(6) as u8;
                let host = random.below(32) as u8;
                IpNet::new([10, 0, 0, host].into(), length).unwrap().trunc()
            };
            (0..random.below(4)).map(|_| one(&mut random)).collect::<Vec<_>>()
        };
        for _ in 0..10_000 {
            let (one, other) = (some(), some());
            assert_eq!(bits(&both(&one, &other)), bits(&one) & bits(&other), "{one:?} and {other:?}");
            assert_eq!(bits(&without(&one, &other)), bits(&one) & !bits(&other), "{one:?} but {other:?}");
        }
    }

    #[test]
    fn all_but_one_is_a_prefix_for_each_bit() {
        assert_eq!(without(&nets("::/0"), &nets("2001:db8::1/128")).len(), 128);
        assert_eq!(without(&nets("10.0.0.0/8 192.0.2.0/24"), &nets("0.0.0.0/0")), []);
        assert_eq!(without(&nets("10.0.0.0/8"), &nets("2001:db8::/32")), nets("10.0.0.0/8"));
    }
}
