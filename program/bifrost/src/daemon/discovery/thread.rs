//! The thread that tells hosts: it sleeps until something is due, something is heard, or it is told
//! something.

use std::hash::{BuildHasher, RandomState};
use std::sync::mpsc::{Sender, TryRecvError};
use std::time::Instant;

use chance::Random;

use super::super::orders::Inbox;
use super::speaker::{Speaker, Told};
use crate::subject::DiscoveryStatus;

/// What the thread is told.
pub(super) enum Order {
    /// What is to be said from now on.
    Say(Vec<Told>),
    /// Say how it is.
    Status(Sender<Vec<DiscoveryStatus>>),
    /// Take leave of all hosts, and end.
    Stop(Sender<()>),
}

pub(super) struct Runner {
    inbox: Inbox<Order>,
    speakers: Vec<Speaker>,
    /// Those of sections that are gone, until they have taken leave.
    leaving: Vec<Speaker>,
    begun: Instant,
    random: Random,
    ends: Option<Sender<()>>,
}

/// Frames heard in a row by one interface before something else has its turn.
const FRAMES: usize = 64;

impl Runner {
    pub(super) fn new(inbox: Inbox<Order>) -> Runner {
        let random = Random(RandomState::new().hash_one(0) | 1);
        let (speakers, leaving) = (Vec::new(), Vec::new());
        Runner { inbox, speakers, leaving, begun: Instant::now(), random, ends: None }
    }

    pub(super) fn run(mut self) {
        let mut buffer = [0; 2048];
        loop {
            loop {
                match self.inbox.next() {
                    Ok(order) => self.obey(order),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            let now = self.begun.elapsed();
            self.all().for_each(|speaker| speaker.speak(now));
            self.leaving.retain(|speaker| !speaker.is_silent());
            if self.leaving.is_empty()
                && let Some(ends) = self.ends.take()
            {
                // Who asked may not have waited.
                let _ = ends.send(());
                return;
            }
            self.sleep();
            let now = self.begun.elapsed();
            for speaker in &mut self.speakers {
                for _ in 0..FRAMES {
                    if !speaker.hear(&mut buffer, now) {
                        break;
                    }
                }
            }
        }
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Speaker> {
        self.speakers.iter_mut().chain(&mut self.leaving)
    }

    fn obey(&mut self, order: Order) {
        let now = self.begun.elapsed();
        match order {
            Order::Say(told) => {
                let mut before = std::mem::take(&mut self.speakers);
                for told in told {
                    let same = before.iter().position(|one| {
                        (&one.told.name, &one.told.interface) == (&told.name, &told.interface)
                    });
                    let mut speaker = match same {
                        Some(at) => before.swap_remove(at),
                        None => Speaker::new(told.clone()),
                    };
                    speaker.follow(told, now, &mut self.random);
                    self.speakers.push(speaker);
                }
                self.leave(before);
            }
            Order::Status(answer) => {
                let status = self.speakers.iter().flat_map(|speaker| speaker.status(now)).collect();
                // Who asked may not have waited.
                let _ = answer.send(status);
            }
            Order::Stop(done) => {
                let speakers = std::mem::take(&mut self.speakers);
                self.leave(speakers);
                self.ends = Some(done);
            }
        }
    }

    fn leave(&mut self, mut speakers: Vec<Speaker>) {
        let now = self.begun.elapsed();
        speakers.iter_mut().for_each(|speaker| speaker.end(now, &mut self.random));
        self.leaving.append(&mut speakers);
    }

    /// Until something is due, or comes.
    fn sleep(&self) {
        let speakers = self.speakers.iter().chain(&self.leaving);
        let due = speakers.filter_map(Speaker::next).min();
        let time = due.map(|at| at.saturating_sub(self.begun.elapsed()));
        self.inbox.sleep(self.speakers.iter().filter_map(Speaker::fd), time);
    }
}
