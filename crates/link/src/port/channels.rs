// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Virtual channels that change while the port runs (`PCIe 5.0 §6.3`, §7.9.1): TC/VC mapping, VC Enable and VC
//! arbitration. The owner decides on the change.

use super::{ALL_CLASSES, InitState, Port, pending};
use crate::arbiter::{Arbiter, VcArbitration};
use crate::channel::Channel;
use crate::config::CreditLimit;
use crate::notice::Notice;
use crate::tx::Queued;
use std::collections::BTreeMap;
use tlp::{Class, TcSet, TcVcMap, Time, TrafficClass, Vc};

/// A VC resource of a port: a receive buffer and the channel that it serves (`PCIe 5.0 §7.9.1.7`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChannelResource {
    /// VC ID.
    pub vc: Vc,
    /// TC/VC Map.
    pub classes: TcSet,
    /// VC Enable.
    pub enabled: bool,
}

/// The channels of a port as its registers set them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Channels {
    /// The VC resources. The first one serves VC0. Resource n has the receive buffer of the n-th channel of
    /// [`PortConfig::tc_vc`](crate::PortConfig::tc_vc).
    pub resources: Vec<ChannelResource>,
    /// Rule by which the channels share the wire.
    pub arbitration: VcArbitration,
}

/// The enabled channels, bits by [`Vc::index`], with their Traffic Classes and receive buffers.
struct Plan {
    enabled: u8,
    map: TcVcMap,
    buffers: BTreeMap<Vc, [CreditLimit; 3]>,
}

impl Channels {
    /// Resolves conflicts of the registers: the resource with the lower number keeps a VC ID or a Traffic Class that a
    /// second one has too. `None` if TC0 is not on VC0.
    fn plan(&self, buffers: &[[CreditLimit; 3]]) -> Option<Plan> {
        let mut classes = [TcSet::NONE; Vc::COUNT];
        let (mut enabled, mut taken, mut used) = (0_u8, TcSet::NONE, BTreeMap::new());
        for (resource, buffer) in self.resources.iter().zip(buffers) {
            let bit = 1 << resource.vc.index();
            if !resource.enabled || enabled & bit != 0 {
                continue;
            }
            enabled |= bit;
            classes[resource.vc.index()] = resource.classes.and(taken.complement());
            taken = taken.or(resource.classes);
            used.insert(resource.vc, *buffer);
        }
        Some(Plan { enabled, map: TcVcMap::new(classes).ok()?, buffers: used })
    }
}

/// The channel of each Traffic Class by its number; VC0 for a class that is not mapped.
pub(super) fn channel_of(map: &TcVcMap) -> [u8; 8] {
    std::array::from_fn(|tc| map.vc(TrafficClass::from_bits(tc as u8)).unwrap_or_default().id())
}

impl Port {
    /// Changes the virtual channels. A channel that becomes enabled goes through flow-control initialization as soon as
    /// the link is up; it ends when the other end has enabled the channel too. A disabled channel loses its credits.
    /// Waiting TLPs move to the channel of their Traffic Class.
    ///
    /// Software has to idle a channel at both ends before it changes it (`PCIe 5.0 §7.9.1.7`). The credits of a TLP under
    /// way count on the channel that its Traffic Class has at the time. No effect on a port without flow
    /// control, or if the first resource does not serve VC0 with TC0.
    #[cold]
    pub fn set_channels(&mut self, now: Time, channels: &Channels) {
        let Some(plan) = channels.plan(&self.resource_buffers) else { return };
        if self.buffer.is_some() || self.follows(&plan, &channels.arbitration) {
            return;
        }
        self.deadline_moved = true;
        let waiting = self.take_waiting();
        self.arbiter = Arbiter::new(&channels.arbitration);
        (self.channel_of, self.mapped) = (channel_of(&plan.map), plan.map.mapped());
        self.config.arbitration = channels.arbitration.clone();
        (self.config.tc_vc, self.config.vc_buffers) = (plan.map, plan.buffers);
        for vc in Vc::all() {
            self.set_channel(vc, plan.enabled >> vc.index() & 1 != 0);
        }
        self.put_back(waiting);
        self.follow_channels(now);
    }

    /// Whether the port already has these channels.
    fn follows(&self, plan: &Plan, arbitration: &VcArbitration) -> bool {
        let enabled = Vc::all().zip(&self.channels).filter(|(_, channel)| channel.is_enabled);
        plan.map == self.config.tc_vc
            && plan.enabled == enabled.map(|(vc, _)| 1 << vc.index()).sum::<u8>()
            && plan.buffers.iter().all(|(vc, buffer)| self.config.buffer(*vc) == *buffer)
            && *arbitration == self.config.arbitration
    }

    /// Removes all waiting TLPs, oldest first.
    fn take_waiting(&mut self) -> Vec<(Class, Queued)> {
        let mut all: Vec<_> = self.channels.iter_mut().flat_map(|channel| channel.queue.drain()).collect();
        all.sort_by_key(|(_, queued)| queued.at);
        all
    }

    fn put_back(&mut self, waiting: Vec<(Class, Queued)>) {
        for (class, Queued { at, lengths, handle, .. }) in waiting {
            let tc = self.store.get(handle).map_or_else(TrafficClass::default, |tlp| tlp.repr.tc);
            let channel = self.channel_of(tc);
            self.channels[channel].queue.push(at, class, lengths, handle);
        }
    }

    /// Enables or disables channel `vc`, whose queue is empty.
    fn set_channel(&mut self, vc: Vc, enabled: bool) {
        let index = vc.index();
        if index >= self.channels.len() {
            if !enabled {
                return;
            }
            let missing = Vc::all().skip(self.channels.len()).take_while(|other| *other <= vc);
            self.channels.extend(missing.map(|vc| Channel::new(&self.config, vc)));
        }
        let (channel, config) = (&mut self.channels[index], &*self.config);
        if channel.is_enabled && !enabled {
            channel.take_down(config, vc);
            let updates =
                ((1 << Class::ALL.len()) - 1) << (pending::UPDATE_FC_SHIFT + index * Class::ALL.len());
            self.pending &= !(1 << (pending::INIT_FC_SHIFT + index) | updates);
        }
        channel.remap(config, vc, enabled);
        let is_new = enabled && channel.init.state() == InitState::Inactive;
        if is_new {
            channel.renew_credits(config, vc, self.feature.agreed_on_scaling());
        }
        if is_new && index != 0 && self.is_active() {
            self.start_init(index);
        }
    }

    /// Updates all that depends on the channels.
    fn follow_channels(&mut self, now: Time) {
        let active = Vc::all().zip(&self.channels).filter(|(_, channel)| channel.is_active());
        let active: Vec<Vc> = active.map(|(vc, _)| vc).collect();
        self.settled = active.iter().fold(TcSet::NONE, |all, vc| all.or(self.config.tc_vc.classes(*vc)));
        let bits = active.iter().map(|vc| 1 << vc.index()).sum();
        self.updates.set_channels(now, &self.config, bits);
        (self.room, self.open_classes) = ([TcSet::NONE; 3], 0);
        if !self.down {
            self.find_room();
        }
        for index in 0..self.channels.len() {
            self.select(index);
        }
        self.fit();
        self.stalls.note(self.wire.free_at().max(now), &mut self.counters);
        self.note_init();
        self.note_rare();
        self.note_negotiation();
    }

    /// Opens each queue that is not full.
    fn find_room(&mut self) {
        self.open_classes = ALL_CLASSES;
        for class in Class::ALL {
            let with_room = self.channels.iter().filter(|channel| channel.queue.has_room(class));
            self.room[class.index()] = with_room.fold(TcSet::NONE, |all, channel| all.or(channel.classes));
            self.open_classes &= !(u8::from(self.room[class.index()].is_empty()) << class.index());
        }
    }

    /// Notifies the owner of the channels in initialization (VC Negotiation Pending, `PCIe 5.0 §7.9.1.8`).
    #[cold]
    pub(super) fn note_negotiation(&mut self) {
        if self.resource_buffers.len() < 2 {
            return;
        }
        let waits = |(_, channel): &(Vc, &Channel)| channel.is_in_use() && !channel.is_active();
        let pending = Vc::all().zip(&self.channels).filter(waits).map(|(vc, _)| 1 << vc.index()).sum();
        self.notices.link(Notice::Negotiating { pending });
    }
}
