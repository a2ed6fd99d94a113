-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Whether anybody looks at fields of a protocol: the pane of details, a filter, a column. Else only what is counted as expert
-- information, matched or put into columns is worth the time. Never touches a packet.

local asked = {}

local dissectors = {}

-- What was answered last: where nobody looks at a protocol, its fields need not be asked for one by one.
local is_answer_yes = false

-- By the protocol's name, and the tree that a dissector was given.
function asked.is_for(name, root)
    dissectors[name] = dissectors[name] or Dissector.get(name)
    is_answer_yes = root:referenced(dissectors[name])
    return is_answer_yes
end

-- Whether anybody looks at a field below this tree, of the protocol that was asked for last.
function asked.is_for_field(tree, field)
    return is_answer_yes and (tree.visible or tree:referenced(field))
end

return asked
