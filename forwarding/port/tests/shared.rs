//! AF_XDP sockets that several threads share.

mod rig;

use std::sync::Arc;

use port::{HugePages, Memory, Packet, PacketSocket, Queue, SocketOptions, XdpDevices, pool};
use rig::{ROUTER_MAC, Rig, frame, ipv4, wait};

const FRAMES: usize = 1024;

fn numbered(number: u8) -> Vec<u8> {
    let mut bytes = frame(0x0800, &ipv4([10, 0, 0, number], [198, 18, 0, 1], 64, &[number; 40]));
    bytes[..6].copy_from_slice(&ROUTER_MAC[0]);
    bytes
}

#[test]
fn any_thread_receives_and_sends_and_all_frames_come_home() {
    let rig = Rig::new(2);
    let wires = [rig.wire(0), rig.wire(1)];
    rig.router.inside(|| {
        let memory = Arc::new(Memory::new(2, FRAMES, HugePages::Off).unwrap());
        memory.pool(0).unwrap().install();
        let devices = XdpDevices::new(memory.clone());
        assert!(devices.receive("r0", Some(2)).err().unwrap().to_string().contains("only 0 to 1"));
        assert!(devices.receive("r9", None).is_err());

        // Only to be sent by: Linux still receives.
        let mut to = devices.send("r1", None).unwrap();
        assert!(to.attachment().is_none());
        let linux = PacketSocket::open(rig.ifindex(1), SocketOptions::default()).unwrap();
        wires[1].send(&numbered(1));
        wait("Linux to receive", || linux.receive(&mut [0; 2000]).is_ok());

        let mut from = devices.receive("r0", None).unwrap();
        assert_eq!(from.len(), 2);
        assert!(from[0].attachment().unwrap().native);
        // A second one shares the sockets.
        let again = devices.receive("r0", Some(0)).unwrap();
        drop(again);

        let mut pass = |numbers: std::ops::Range<u8>| {
            for number in numbers {
                wires[0].send(&numbered(number));
                let mut packets: Vec<Packet> = Vec::new();
                wait("the frame", || {
                    for queue in &mut from {
                        queue.receive(&mut packets, 64);
                        queue.kick();
                    }
                    !packets.is_empty()
                });
                to.transmit(&mut packets);
                to.kick();
                assert_eq!((packets.len(), to.unsent()), (0, 0));
                assert_eq!(wires[1].expect("it", |frame| frame.len() > 60)[..], numbered(number)[..]);
            }
        };
        pass(0..100);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                memory.pool(1).unwrap().install();
                pass(100..200);
            });
            other.join().unwrap();
        });
        pass(200..250);
        assert!(!to.is_too_long(1514) && to.is_too_long(1600));
        let lost: u64 = from.iter().map(|queue| queue.counters().lost()).sum();
        assert_eq!(lost, 0);

        // Given back: Linux receives again, and every frame is home.
        drop(from);
        let linux = PacketSocket::open(rig.ifindex(0), SocketOptions::default()).unwrap();
        wires[0].send(&numbered(1));
        wait("Linux to receive again", || linux.receive(&mut [0; 2000]).is_ok());
        drop(to);
        assert_eq!(pool::available(), FRAMES);
        memory.pool(1).unwrap().install();
        assert_eq!(pool::available(), FRAMES);
    });
}

#[test]
fn an_interface_with_another_program_is_refused_and_left_as_it_is() {
    let rig = Rig::new(1);
    rig.router.inside(|| {
        let memory = Arc::new(Memory::new(1, FRAMES, HugePages::Off).unwrap());
        memory.pool(0).unwrap().install();
        let sink = port::traffic::Sink::attach(rig.ifindex(0)).unwrap();
        let devices = XdpDevices::new(memory.clone());
        let error = devices.receive("r0", None).err().unwrap().to_string();
        assert!(error.contains("another XDP program is there"), "{error}");
        drop(sink);
        let mut one = devices.receive("r0", None).unwrap();
        // Sockets of another program on the same queue.
        let others = XdpDevices::new(memory);
        let error = others.send("r0", None).err().unwrap().to_string();
        assert!(error.contains("another program has a socket on this queue"), "{error}");
        one.clear();
        others.send("r0", None).unwrap();
    });
}
