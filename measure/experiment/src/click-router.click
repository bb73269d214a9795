// The IP router of Click's paper (Kohler et al., TOCS 2000, figure 8) with two interfaces. Where it has FromDevice and ToDevice
// frames come from memory and go there.
c0, c1 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
out0, out1 :: Queue(1024);
begin0 :: Begin -> c0;
begin1 :: Begin -> c1;
out0 -> End;
out1 -> End;

arpq0 :: ARPQuerier(10.99.1.1, 02:00:00:00:01:01);
arpq1 :: ARPQuerier(10.99.2.1, 02:00:00:00:01:02);
c0[0] -> ARPResponder(10.99.1.1 02:00:00:00:01:01) -> out0;
c1[0] -> ARPResponder(10.99.2.1 02:00:00:00:01:02) -> out1;
c0[1] -> [1]arpq0;
c1[1] -> [1]arpq1;
arpq0 -> out0;
arpq1 -> out1;

rt :: StaticIPLookup(10.99.1.1/32 0, 10.99.1.255/32 0, 10.99.1.0/32 0, 10.99.2.1/32 0, 10.99.2.255/32 0,
  10.99.2.0/32 0, 10.99.1.0/24 1, 10.99.2.0/24 2, 255.255.255.255/32 0.0.0.0 0, 0.0.0.0/32 0,
  0.0.0.0/0 10.99.2.2 2);

ip :: Strip(14) -> CheckIPHeader(INTERFACES 10.99.1.1/24 10.99.2.1/24) -> [0]rt;
c0[2] -> Paint(1) -> ip;
c1[2] -> Paint(2) -> ip;
rt[0] -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> Discard;
c0[3] -> Discard;
c1[3] -> Discard;

rt[1] -> DropBroadcasts -> cp0 :: PaintTee(1) -> gio0 :: IPGWOptions(10.99.1.1) -> FixIPSrc(10.99.1.1)
  -> dt0 :: DecIPTTL -> fr0 :: IPFragmenter(1500) -> [0]arpq0;
rt[2] -> DropBroadcasts -> cp1 :: PaintTee(2) -> gio1 :: IPGWOptions(10.99.2.1) -> FixIPSrc(10.99.2.1)
  -> dt1 :: DecIPTTL -> fr1 :: IPFragmenter(1500) -> [0]arpq1;

dt0[1] -> ICMPError(10.99.1.1, timeexceeded) -> [0]rt;
dt1[1] -> ICMPError(10.99.2.1, timeexceeded) -> [0]rt;
fr0[1] -> ICMPError(10.99.1.1, unreachable, needfrag) -> [0]rt;
fr1[1] -> ICMPError(10.99.2.1, unreachable, needfrag) -> [0]rt;
gio0[1] -> ICMPError(10.99.1.1, parameterproblem) -> [0]rt;
gio1[1] -> ICMPError(10.99.2.1, parameterproblem) -> [0]rt;
cp0[1] -> ICMPError(10.99.1.1, redirect, host) -> [0]rt;
cp1[1] -> ICMPError(10.99.2.1, redirect, host) -> [0]rt;
