// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The slot of a root or downstream port (`PCIe 5.0 §7.5.3.9` to `§7.5.3.11`, `§6.7`): its features, its control
//! settings, and its events. The consequences of events are handled elsewhere.

use super::{slot_capabilities, slot_control as bit};
use crate::register::{get, put, those};

/// Features of a slot, fixed when it is built.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SlotLayout {
    /// Physical Slot Number, 0 to 8191; zero is a device soldered to the board.
    pub number: u16,
    /// Hot-Plug Capable.
    pub hot_plug: bool,
    /// Hot-Plug Surprise: the card may be removed without notice.
    pub surprise: bool,
    /// Attention Button Present.
    pub attention_button: bool,
    /// Power Controller Present.
    pub power_controller: bool,
    /// MRL Sensor Present.
    pub mrl_sensor: bool,
    /// Attention Indicator Present.
    pub attention_indicator: bool,
    /// Power Indicator Present.
    pub power_indicator: bool,
    /// No Command Completed Support: commands take effect immediately.
    pub no_command_completed: bool,
    /// Slot Power Limit Value, in the unit of the scale; 0 to FEh.
    pub power_limit_value: u8,
    /// Slot Power Limit Scale: 0 to 3 for 1, 0.1, 0.01, 0.001 W.
    pub power_limit_scale: u8,
    /// Whether a card is in the slot after a fundamental reset.
    pub occupied: bool,
}

impl SlotLayout {
    /// Returns an empty slot `number` with every hot-plug feature, including a latch (MRL sensor) and surprise removal.
    /// Commands take time, and the slot sets no power limit.
    pub const fn with_all(number: u16) -> SlotLayout {
        SlotLayout {
            number,
            hot_plug: true,
            surprise: true,
            attention_button: true,
            power_controller: true,
            mrl_sensor: true,
            attention_indicator: true,
            power_indicator: true,
            no_command_completed: false,
            power_limit_value: 0,
            power_limit_scale: 0,
            occupied: false,
        }
    }

    pub(crate) fn capabilities(self) -> u32 {
        use slot_capabilities::*;
        let limit = u32::from(self.power_limit_value) | u32::from(self.power_limit_scale) << 8;
        put(POWER_LIMIT, limit)
            | put(PHYSICAL_SLOT_NUMBER, self.number.into())
            | those([
                (self.attention_button, ATTENTION_BUTTON_PRESENT),
                (self.power_controller, POWER_CONTROLLER_PRESENT),
                (self.mrl_sensor, MRL_SENSOR_PRESENT),
                (self.attention_indicator, ATTENTION_INDICATOR_PRESENT),
                (self.power_indicator, POWER_INDICATOR_PRESENT),
                (self.surprise, SURPRISE),
                (self.hot_plug, HOT_PLUG),
                (self.no_command_completed, NO_COMMAND_COMPLETED),
            ])
    }

    /// Slot Control and Status after reset. Indicators that exist are off (11b, Table 7-22).
    pub(crate) fn control(self) -> u32 {
        bit::ATTENTION_INDICATOR | bit::POWER_INDICATOR | those([(self.occupied, bit::PRESENT)])
    }

    /// Bits of Slot Control and Status that this slot does not implement.
    pub(crate) fn absent(self) -> u32 {
        those([
            (!self.attention_button, bit::ATTENTION_BUTTON_ENABLE | bit::ATTENTION_BUTTON),
            (!self.power_controller, bit::POWER_FAULT_ENABLE | bit::POWER_FAULT | bit::POWER_OFF),
            (!self.mrl_sensor, bit::MRL_SENSOR_ENABLE | bit::MRL_SENSOR | bit::MRL_OPEN),
            (!self.attention_indicator, bit::ATTENTION_INDICATOR),
            (!self.power_indicator, bit::POWER_INDICATOR),
            (self.no_command_completed, bit::COMMAND_COMPLETED_ENABLE | bit::COMMAND_COMPLETED),
            (!self.hot_plug, bit::HOT_PLUG_INTERRUPT_ENABLE | bit::PRESENCE_ENABLE | bit::LINK_STATE_ENABLE),
        ])
    }
}

/// An event of a slot (`PCIe 5.0 §6.7.3`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotEvent {
    /// The attention button was pressed.
    AttentionButton,
    /// The power controller found a fault.
    PowerFault,
    /// The retention latch was opened or closed.
    MrlSensor {
        /// True if the latch is open.
        open: bool,
    },
    /// A card was inserted or removed.
    Presence {
        /// True if a card is present now.
        present: bool,
    },
    /// The slot has executed the command of the last write to Slot Control.
    CommandCompleted,
    /// The link below went up or down.
    LinkState,
}

impl SlotEvent {
    /// Status bit, interrupt enable bit, bit of the state, and the state's new value.
    pub(crate) const fn bits(self) -> (u32, u32, u32, bool) {
        match self {
            SlotEvent::AttentionButton => (bit::ATTENTION_BUTTON, bit::ATTENTION_BUTTON_ENABLE, 0, false),
            SlotEvent::PowerFault => (bit::POWER_FAULT, bit::POWER_FAULT_ENABLE, 0, false),
            SlotEvent::MrlSensor { open } => (bit::MRL_SENSOR, bit::MRL_SENSOR_ENABLE, bit::MRL_OPEN, open),
            SlotEvent::Presence { present } => (bit::PRESENCE, bit::PRESENCE_ENABLE, bit::PRESENT, present),
            SlotEvent::CommandCompleted => (bit::COMMAND_COMPLETED, bit::COMMAND_COMPLETED_ENABLE, 0, false),
            SlotEvent::LinkState => (bit::LINK_STATE, bit::LINK_STATE_ENABLE, 0, false),
        }
    }

    /// All kinds of events, with dummy values.
    pub(crate) const ALL: [SlotEvent; 6] = [
        SlotEvent::AttentionButton,
        SlotEvent::PowerFault,
        SlotEvent::MrlSensor { open: false },
        SlotEvent::Presence { present: false },
        SlotEvent::CommandCompleted,
        SlotEvent::LinkState,
    ];
}

/// True if an event with an enabled interrupt is logged and Hot-Plug Interrupt Enable is set. This is the level of INTx;
/// an MSI is sent when it becomes true (`PCIe 5.0 §6.7.3.4`).
pub(crate) fn interrupt(word: u32) -> bool {
    let due = |event: &SlotEvent| {
        let (status, enable, ..) = event.bits();
        word & status != 0 && word & enable != 0
    };
    word & bit::HOT_PLUG_INTERRUPT_ENABLE != 0 && SlotEvent::ALL.iter().any(due)
}

/// Current state of a slot, from Slot Control and Slot Status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotState {
    /// Presence Detect State.
    pub present: bool,
    /// Power is on; also true without a power controller.
    pub powered: bool,
    /// MRL Sensor State: open.
    pub mrl_open: bool,
    /// Attention Indicator Control: 1 on, 2 blinking, 3 off.
    pub attention_indicator: u8,
    /// Power Indicator Control: 1 on, 2 blinking, 3 off.
    pub power_indicator: u8,
    /// Hot-plug interrupts are due (see [`ConfigSpace::set_slot_event`](crate::ConfigSpace::set_slot_event)).
    pub interrupt: bool,
}

impl SlotState {
    pub(crate) fn read(word: u32) -> SlotState {
        SlotState {
            present: word & bit::PRESENT != 0,
            powered: word & bit::POWER_OFF == 0,
            mrl_open: word & bit::MRL_OPEN != 0,
            attention_indicator: get(word, bit::ATTENTION_INDICATOR) as u8,
            power_indicator: get(word, bit::POWER_INDICATOR) as u8,
            interrupt: interrupt(word),
        }
    }
}
