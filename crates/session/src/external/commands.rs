// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands of an outside program for a lab's links during the run: to cut links, remove devices and inject faults. A
//! command is a line of text, and is recorded as such.
//!
//! ```text
//! cut NAME [MICROSECONDS]     cut the link above a slot or switch; it is restored after that time
//! restore NAME                restore the link
//! remove NAME                 remove the card in a hot-plug capable slot
//! insert NAME                 insert it again, in its power-on state
//! attention NAME              press the slot's attention button
//! speed NAME GEN LANES        retrain the link to this generation and number of lanes
//! fault KEY = VALUE, ...      add a fault, with the keys of [[fault]] in a lab; frames are counted from now
//! clear [NAME]                end the faults of one link, or all faults, including those of the lab's file
//! ```

use fabric::{Fabric, FaultRule, LinkChange, LinkEvent, LinkId};
use lab::schema::{Hanging, Lab};
use lab::{faults, links};
use plug::Attachment;
use plug::file::FileError;
use plug::place::{Input, InputError};
use std::cell::RefCell;
use std::rc::Rc;
use thiserror::Error;
use tlp::{Duration, Rate, Time, Width};

/// The name of the place of commands.
pub const LINKS: &str = "links";
/// Maximum number of bytes of a command.
pub const MAX_COMMAND_BYTES: usize = 4096;
/// The commands, each with its arguments.
pub const COMMAND_FORMS: [&str; 8] = [
    "cut NAME [MICROSECONDS]",
    "restore NAME",
    "remove NAME",
    "insert NAME",
    "attention NAME",
    "speed NAME GEN LANES",
    "fault KEY = VALUE, ...",
    "clear [NAME]",
];

/// Reason why a command is refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The command has too many bytes.
    #[error("a command of {0} bytes, expected at most {MAX_COMMAND_BYTES}")]
    TooLong(usize),
    /// There is no such command.
    #[error("no command `{0}`, expected {forms}", forms = COMMAND_FORMS.join("; "))]
    Unknown(String),
    /// The command needs the name of a slot or switch.
    #[error("{verb} without a name, expected {known}")]
    NoName {
        /// The command.
        verb: String,
        /// The names.
        known: String,
    },
    /// The lab has no slot or switch of this name.
    #[error("no slot or switch `{name}`, expected {known}")]
    NoLink {
        /// The name.
        name: String,
        /// The legal names.
        known: String,
    },
    /// The port above the link is not hot-plug capable. Has the command.
    #[error("{0}: the port above is not hot-plug capable (hot_plug = true)")]
    NotHotPlug(String),
    /// The slot of this name has no attention button.
    #[error("attention {0}: the slot has no button (hot_plug_controls = true)")]
    NoButton(String),
    /// A duration is illegal. Has the command.
    #[error("{0}, expected microseconds up to 10^9, only with `cut`")]
    Microseconds(String),
    /// An argument is superfluous.
    #[error("{command}: unexpected argument `{word}`")]
    Argument {
        /// The command.
        command: String,
        /// The argument.
        word: String,
    },
    /// The arguments of `speed` are incomplete.
    #[error("speed {0}, expected a name, a generation and lanes")]
    SpeedForm(String),
    /// The link does not have this generation.
    #[error("speed {name}: generation {generation}, expected 1 to {most}")]
    Generation {
        /// The link.
        name: String,
        /// The generation, as given.
        generation: String,
        /// The highest generation of the link.
        most: u8,
    },
    /// The link does not have this width.
    #[error("speed {name}: {lanes} lanes, expected a link width up to {most}")]
    Lanes {
        /// The link.
        name: String,
        /// The lanes, as given.
        lanes: String,
        /// The maximum width.
        most: u8,
    },
    /// A fault has no keys. Has the names of slots and switches.
    #[error("fault: expected {keys}", keys = faults::legal_keys(.0))]
    NoKeys(String),
    /// A fault has an illegal key or value.
    #[error("fault: {message}", message = .0.message)]
    Fault(FileError),
}

/// The place of commands. Clones are handles of the same place.
#[derive(Clone, Default)]
pub struct Commands(Rc<CommandsState>);

#[derive(Default)]
struct CommandsState {
    links: Vec<Known>,
    /// Commands that were accepted but not executed yet.
    taken: RefCell<Vec<Act>>,
}

/// A link that commands can name.
struct Known {
    /// Name of the slot or switch below it.
    name: String,
    /// Whether the port above is hot-plug capable.
    hot_plug: bool,
    /// Whether the port above has a button.
    controls: bool,
    /// Capability of its ports.
    best: (Rate, Width),
}

/// A parsed command, with its text.
pub struct LabCommand {
    text: String,
    acts: Vec<Act>,
}

enum Act {
    /// A change of the link after this time.
    Link(Duration, LinkId, LinkChange),
    Fault(FaultRule),
    Clear(LinkId),
}

impl Commands {
    pub(crate) fn of(lab: &Lab) -> Commands {
        let known = |hanging: Hanging<'_>| {
            let port = links::config(&lab.link, hanging.link).root;
            let Hanging { name, hot_plug, controls, .. } = hanging;
            Known { name: name.get_ref().clone(), hot_plug, controls, best: (port.rate, port.width) }
        };
        Commands(Rc::new(CommandsState {
            links: lab.hanging().map(known).collect(),
            taken: RefCell::default(),
        }))
    }

    /// Parses a command.
    ///
    /// # Errors
    /// The illegal part, with the legal values.
    pub fn parse(&self, text: &str) -> Result<LabCommand, CommandError> {
        if text.len() > MAX_COMMAND_BYTES {
            return Err(CommandError::TooLong(text.len()));
        }
        let text = text.trim();
        let (verb, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let acts = match verb {
            "fault" => self.fault(rest)?,
            "speed" => self.speed(rest)?,
            "clear" => self.clear(rest)?,
            _ => self.link(verb, rest)?,
        };
        Ok(LabCommand { text: text.to_owned(), acts })
    }

    fn link(&self, verb: &str, rest: &str) -> Result<Vec<Act>, CommandError> {
        let mut words = rest.split_whitespace();
        let change = match verb {
            "cut" => LinkChange::Cut,
            "restore" => LinkChange::Restore,
            "remove" => LinkChange::Remove,
            "insert" => LinkChange::Insert,
            "attention" => LinkChange::PressAttention,
            _ => return Err(CommandError::Unknown(verb.to_owned())),
        };
        let no_name = || CommandError::NoName { verb: verb.to_owned(), known: self.names() };
        let name = words.next().ok_or_else(no_name)?;
        let (link, Known { hot_plug, controls, .. }) = self.find(name)?;
        let needs_hot_plug = !matches!(verb, "cut" | "restore");
        if needs_hot_plug && !*hot_plug {
            return Err(CommandError::NotHotPlug(format!("{verb} {name}")));
        }
        if verb == "attention" && !controls {
            return Err(CommandError::NoButton(name.to_owned()));
        }
        let mut acts = vec![Act::Link(Duration::ZERO, link, change)];
        if let Some(word) = words.next() {
            let after = word.parse().ok().filter(|us| verb == "cut" && *us <= 1_000_000_000);
            let us: u64 = after.ok_or_else(|| CommandError::Microseconds(format!("{verb} {name} {word}")))?;
            acts.push(Act::Link(Duration::from_us(us), link, LinkChange::Restore));
        }
        match words.next() {
            Some(word) => {
                Err(CommandError::Argument { command: format!("{verb} {name}"), word: word.to_owned() })
            }
            None => Ok(acts),
        }
    }

    fn speed(&self, rest: &str) -> Result<Vec<Act>, CommandError> {
        let [name, generation, lanes] = rest.split_whitespace().collect::<Vec<_>>()[..] else {
            return Err(CommandError::SpeedForm(rest.to_owned()));
        };
        let (link, Known { best: (most, widest), .. }) = self.find(name)?;
        let rate = generation.parse().ok().and_then(Rate::from_generation).filter(|rate| rate <= most);
        let rate = rate.ok_or_else(|| CommandError::Generation {
            name: name.to_owned(),
            generation: generation.to_owned(),
            most: most.generation(),
        })?;
        let width = lanes.parse().ok().and_then(Width::new).filter(|width| width <= widest);
        let width = width.ok_or_else(|| CommandError::Lanes {
            name: name.to_owned(),
            lanes: lanes.to_owned(),
            most: widest.lanes(),
        })?;
        Ok(vec![Act::Link(Duration::ZERO, link, LinkChange::Speed { rate, width })])
    }

    fn fault(&self, rest: &str) -> Result<Vec<Act>, CommandError> {
        let rest = rest.trim();
        let keys = rest.strip_prefix('{').and_then(|keys| keys.strip_suffix('}')).unwrap_or(rest);
        if keys.trim().is_empty() {
            return Err(CommandError::NoKeys(self.names()));
        }
        let fault = faults::read_command(keys).map_err(CommandError::Fault)?;
        let (link, _) = self.find(fault.slot.get_ref())?;
        Ok(vec![Act::Fault(faults::rule(&fault, link))])
    }

    /// Ends the faults of the link with this name, or of all links.
    fn clear(&self, rest: &str) -> Result<Vec<Act>, CommandError> {
        match rest.trim() {
            "" => Ok((0..self.0.links.len()).map(|n| Act::Clear(LinkId(n as u32))).collect()),
            name => Ok(vec![Act::Clear(self.find(name)?.0)]),
        }
    }

    fn find(&self, name: &str) -> Result<(LinkId, &Known), CommandError> {
        let found = self.0.links.iter().enumerate().find(|(_, known)| known.name == name);
        let unknown = || CommandError::NoLink { name: name.to_owned(), known: self.names() };
        let (n, known) = found.ok_or_else(unknown)?;
        Ok((LinkId(n as u32), known))
    }

    fn names(&self) -> String {
        self.0.links.iter().map(|known| known.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Executes the accepted commands.
    pub(crate) fn apply(&self, fabric: &mut Fabric) {
        for act in self.0.taken.take() {
            match act {
                Act::Fault(rule) => fabric.add_fault(rule),
                Act::Clear(link) => fabric.clear_faults(link),
                Act::Link(after, link, change) => {
                    fabric.schedule(LinkEvent { at: fabric.now() + after, link, change });
                }
            }
        }
    }
}

impl Attachment for Commands {
    fn take_recorded(&self, now: Time, input: &[u8]) -> Result<bool, InputError> {
        let text = std::str::from_utf8(input);
        let text = text.map_err(|e| InputError::Value(format!("a command that is not text: {e}")))?;
        let command = self.parse(text).map_err(|e| InputError::Refused(e.to_string()))?;
        Ok(command.join(self, now))
    }

    fn awaits_fabric(&self) -> bool {
        false
    }

    fn has_output(&self) -> bool {
        false
    }

    fn discard_outputs(&self) {}
}

impl Input<Commands> for LabCommand {
    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.text.as_bytes());
    }

    fn join(self, place: &Commands, _: Time) -> bool {
        place.0.taken.borrow_mut().extend(self.acts);
        true
    }
}
