-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Tells whether fields of a protocol are needed for the details pane, a filter or a column. If not, the dissectors
-- save time and only provide expert information, transactions and columns. Reads no packet.

local asked = {}

local dissectors = {}

-- The last answer. If a protocol is not needed, its fields are not needed either.
local is_answer_yes = false

-- Returns whether a protocol is needed, by its name and the tree of its dissector.
function asked.is_for(name, root)
    dissectors[name] = dissectors[name] or Dissector.get(name)
    is_answer_yes = root:referenced(dissectors[name])
    return is_answer_yes
end

-- Returns whether a field below this tree is needed, for the protocol of the last `is_for`.
function asked.is_for_field(tree, field)
    return is_answer_yes and (tree.visible or tree:referenced(field))
end

return asked
