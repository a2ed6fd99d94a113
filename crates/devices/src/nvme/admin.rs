// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Admin commands (NVMe 1.4 §5).

use super::features;
use super::pointer::prps;
use super::queue::{CompletionQueue, SubmissionQueue};
use super::run::ControllerRun;
use super::settings::Block;
use super::spec::{ALL_NAMESPACES, Command, Outcome, Status, admin};
use super::{MAX_ENTRIES, identify, log};
use std::rc::Rc;

impl ControllerRun {
    /// Carries out an admin command, except Asynchronous Event Request.
    pub(super) async fn administer(self: &Rc<ControllerRun>, command: &Command) -> Outcome {
        if command.psdt() != 0 {
            return Err(Status::INVALID_FIELD);
        }
        match command.opcode() {
            admin::CREATE_CQ => self.create_completions(command),
            admin::CREATE_SQ => self.create_submissions(command),
            admin::DELETE_CQ => self.delete_completions(command),
            admin::DELETE_SQ => {
                let queue = self.submissions(command.dw(10) as u16).filter(|queue| queue.id > 0);
                self.remove_submissions(&*queue.ok_or(Status::QUEUE_ID)?).await;
                Ok(0)
            }
            admin::IDENTIFY => self.identify(command).await,
            admin::GET_LOG_PAGE => self.log_page(command).await,
            admin::ABORT => {
                let is_ended = self.abort(command.dw(10) as u16, (command.dw(10) >> 16) as u16);
                Ok(u32::from(!is_ended))
            }
            admin::GET_FEATURES => match (command.dw(10) as u8, command.dw(10) >> 8 & 0b111) {
                (features::QUEUES, 3) => Ok(features::CHANGEABLE),
                (features::QUEUES, _) => Ok(self.queue_count()),
                (feature, select) => {
                    self.features.borrow().get(feature, select, command.dw(11), command.nsid())
                }
            },
            admin::SET_FEATURES => self.set_feature(command).await,
            admin::FORMAT => self.format(command),
            _ => Err(Status::INVALID_OPCODE),
        }
    }

    // ---- queues ----

    /// Number of I/O queues of each kind, minus one.
    fn queue_count(&self) -> u32 {
        let last = u32::from(self.pairs()) - 1;
        last << 16 | last
    }

    fn pairs(&self) -> u16 {
        self.controller.subsystem.settings.pairs_of(self.controller.number)
    }

    /// Number, base and entries of a new queue.
    fn place(&self, command: &Command, is_there: bool) -> Result<(u16, u64, u32), Status> {
        let (id, entries) = (command.dw(10) as u16, (command.dw(10) >> 16) + 1);
        let [base, _] = command.pointer();
        if !self.has_place(id) || is_there {
            Err(Status::QUEUE_ID)
        } else if !(2..=MAX_ENTRIES).contains(&entries) {
            Err(Status::QUEUE_SIZE)
        } else if command.dw(11) & 1 == 0 || !self.controller.has_entry_sizes() {
            // Not contiguous.
            Err(Status::INVALID_FIELD)
        } else if !base.is_multiple_of(self.page.into()) {
            Err(Status::PRP_OFFSET)
        } else {
            Ok((id, base, entries))
        }
    }

    fn create_completions(self: &Rc<ControllerRun>, command: &Command) -> Outcome {
        let is_there = self.completions(command.dw(10) as u16).is_some();
        let (id, base, entries) = self.place(command, is_there)?;
        let vector = (command.dw(11) >> 16) as u16;
        if vector > self.pairs() {
            return Err(Status::INTERRUPT_VECTOR);
        }
        let vector = (command.dw(11) & 0b10 != 0).then_some(vector);
        self.add_completions(CompletionQueue::new(id, base, entries, vector));
        Ok(0)
    }

    fn create_submissions(self: &Rc<ControllerRun>, command: &Command) -> Outcome {
        let is_there = self.submissions(command.dw(10) as u16).is_some();
        let completions = (command.dw(11) >> 16) as u16;
        if !self.has_place(completions) {
            return Err(Status::QUEUE_ID);
        }
        let completions = self.completions(completions).ok_or(Status::CQ_INVALID)?;
        let (id, base, entries) = self.place(command, is_there)?;
        self.add_submissions(SubmissionQueue::new(id, base, entries, completions));
        Ok(0)
    }

    fn delete_completions(&self, command: &Command) -> Outcome {
        let queue = self.completions(command.dw(10) as u16).filter(|queue| queue.id > 0);
        let queue = queue.ok_or(Status::QUEUE_ID)?;
        if queue.users.get() > 0 {
            return Err(Status::QUEUE_DELETION);
        }
        self.remove_completions(queue.id);
        Ok(0)
    }

    // ---- data for the host ----

    /// Writes `bytes` to the command's data buffer.
    async fn tell(&self, command: &Command, bytes: &[u8]) -> Outcome {
        let io = &self.controller.io;
        let mut rest = bytes;
        for piece in prps(io, command.pointer(), self.page, bytes.len() as u32).await? {
            let (part, behind) = rest.split_at(piece.bytes as usize);
            rest = behind;
            if let Some(address) = piece.address {
                io.dma_write(address, part).await.map_err(|_| Status::DATA_TRANSFER)?;
            }
        }
        Ok(0)
    }

    async fn identify(&self, command: &Command) -> Outcome {
        let (subsystem, number, nsid) = (&self.controller.subsystem, self.controller.number, command.nsid());
        let are_several = subsystem.settings.vfs > 0;
        let count = subsystem.namespaces.len() as u32;
        let known = || match nsid.checked_sub(1).and_then(|n| subsystem.namespaces.get(n as usize)) {
            Some(namespace) => Ok(namespace),
            None => Err(Status::INVALID_NAMESPACE),
        };
        let bytes = match command.dw(10) as u8 {
            0x00 if nsid == ALL_NAMESPACES => return Err(Status::INVALID_NAMESPACE),
            0x00 => identify::namespace(known()?, are_several, identify::eui64(subsystem.serial, nsid)),
            0x01 => identify::controller(&identify::Subject {
                serial: &format!("riser-{:08x}", subsystem.serial),
                controller: number,
                are_several,
                has_cache: subsystem.settings.volatile_write_cache,
                namespaces: count,
            }),
            0x02 if nsid >= ALL_NAMESPACES - 1 => return Err(Status::INVALID_NAMESPACE),
            0x02 => identify::list(nsid.saturating_add(1)..=count),
            0x03 => {
                known()?;
                identify::descriptors(identify::eui64(subsystem.serial, nsid))
            }
            _ => return Err(Status::INVALID_FIELD),
        };
        self.tell(command, &bytes).await
    }

    async fn log_page(&self, command: &Command) -> Outcome {
        let (page, retains) = (command.dw(10) as u8, command.dw(10) & 1 << 15 != 0);
        let words = (u64::from(command.dw(11) & 0xffff) << 16 | u64::from(command.dw(10) >> 16)) + 1;
        let offset = u64::from(command.dw(13)) << 32 | u64::from(command.dw(12));
        // No page is specific to a namespace.
        if ![0, ALL_NAMESPACES].contains(&command.nsid()) {
            return Err(Status::INVALID_FIELD);
        }
        let warning = self.features.borrow().warning();
        let all = match page {
            log::ERROR => self.controller.counts.borrow().error_page(),
            log::HEALTH => self.controller.counts.borrow().health_page(warning, self.controller.io.now()),
            log::FIRMWARE => log::firmware_page(),
            log::EFFECTS => log::effects_page(),
            _ => return Err(Status::LOG_PAGE),
        };
        if !offset.is_multiple_of(4)
            || offset > all.len() as u64
            || words * 4 > u64::from(super::MAX_TRANSFER)
        {
            return Err(Status::INVALID_FIELD);
        }
        let mut bytes = all[offset as usize..].to_vec();
        bytes.resize((words * 4) as usize, 0);
        self.tell(command, &bytes).await?;
        if !retains {
            self.events.read(page);
        }
        Ok(0)
    }

    // ---- changes ----

    async fn set_feature(&self, command: &Command) -> Outcome {
        let (feature, value) = (command.dw(10) as u8, command.dw(11));
        if command.dw(10) & 1 << 31 != 0 {
            return Err(Status::NOT_SAVEABLE);
        }
        if feature == features::QUEUES {
            return match (self.has_io_queues(), value & 0xffff == 0xffff || value >> 16 == 0xffff) {
                (true, _) => Err(Status::SEQUENCE),
                (_, true) => Err(Status::INVALID_FIELD),
                _ => Ok(self.queue_count()),
            };
        }
        self.features.borrow_mut().set(feature, value, command.nsid())?;
        let tells = self.features.borrow().tells_warning();
        if tells {
            self.events.temperature().await;
        }
        Ok(0)
    }

    fn format(&self, command: &Command) -> Outcome {
        let all = &self.controller.subsystem.namespaces;
        let settings = command.dw(10);
        let shift = *Block::SHIFTS.get((settings & 0xf) as usize).ok_or(Status::FORMAT)?;
        // Without metadata and protection information. Both kinds of secure erase erase everything.
        if settings >> 4 & 0x1f != 0 || settings >> 9 & 0b111 > 1 {
            return Err(Status::FORMAT);
        }
        let chosen = match command.nsid() {
            ALL_NAMESPACES => &all[..],
            0 => return Err(Status::INVALID_NAMESPACE),
            n => all.get(n as usize - 1..n as usize).ok_or(Status::INVALID_NAMESPACE)?,
        };
        match chosen.iter().try_for_each(|namespace| namespace.format(1 << shift)) {
            Ok(()) => Ok(0),
            Err(_) => Err(Status::INTERNAL),
        }
    }
}
