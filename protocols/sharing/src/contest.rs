//! Flows whose packets have passed both routers.
//!
//! It happens for a moment at each takeover, longer where a router hangs or two do not hear each
//! other, and all the time where the two directions of a connection go by different routers. What
//! either router knows of TCP's numbers is then behind what the other one has seen, and a segment
//! that is right may look as if it were not.
//!
//! So who hears that the other router carries a flow as well has both ends say anew where they are
//! (windows are not compared until both have), and looks again after a while. No packet came since:
//! it lets the flow go, and says so. Packets came: it tells the other router, which does the same.
//! Where both go on, they tell each other ever more seldom, down to once in some seconds. Where the
//! other one says nothing any more, nothing is asked any more.
//!
//! When both have stopped, the one whose epoch is lower lets go first, so that not both do.

use crate::shared::Flow;
use crate::sharer::Sharing;
use crate::table::{Here, Local};
use crate::telling::AGAIN;

/// The time between two looks is doubled so often.
const DOUBLED: u8 = 3;

impl Sharing {
    /// The other router tells of a flow that is carried here as well.
    pub(crate) fn contest(&mut self, mark: u64, local: &Local, flow: &Flow, now: u64) {
        self.is_known(mark, local);
        self.told(mark, flow);
        let Some(known) = self.book.get(mark) else { return };
        known.packets = local.packets;
        let at = now + (AGAIN << known.contests);
        known.contests = (known.contests + 1).min(DOUBLED);
        if !std::mem::replace(&mut known.looks, true) {
            self.contested.insert((at, mark));
        }
    }

    /// Looks at those whose time has come.
    pub(crate) fn settle(&mut self, now: u64, here: &mut Here) {
        while let Some((at, mark)) = self.contested.first().copied().filter(|(at, _)| *at <= now) {
            self.contested.remove(&(at, mark));
            self.look_who_carries(mark, now, here);
        }
    }

    fn look_who_carries(&mut self, mark: u64, now: u64, here: &mut Here) {
        let waits = !self.gives_way;
        self.book.get(mark).into_iter().for_each(|known| known.looks = false);
        let Some(local) = self.follow(mark, now, here) else { return };
        let Some(known) = self.book.get(mark).filter(|known| known.contests != 0) else { return };
        if known.packets != local.packets {
            known.packets = local.packets;
            known.anew = true;
            here.open(&local, &local.flow, now);
            self.is_news(mark, now);
        } else if waits && known.contests == 1 {
            (known.contests, known.looks) = (2, true);
            self.contested.insert((now + AGAIN, mark));
        } else {
            self.give_way(mark, local.packets);
            self.is_news(mark, now);
        }
    }

    /// The flow is the other router's from here on, until packets of it come.
    pub(crate) fn give_way(&mut self, mark: u64, packets: u32) {
        if let Some(known) = self.book.get(mark) {
            (known.carried, known.packets) = (false, packets);
            // The other router has to hear of it again if packets come before it hears of this.
            (known.anew, known.contests) = (true, 0);
        }
    }

    /// The other router has let it go.
    pub(crate) fn won(&mut self, mark: u64, now: u64, here: &mut Here) {
        let Some(known) = self.book.get(mark).filter(|known| known.contests != 0) else { return };
        known.contests = 0;
        if let Some(local) = self.follow(mark, now, here) {
            here.open(&local, &local.flow, now);
        }
    }
}
