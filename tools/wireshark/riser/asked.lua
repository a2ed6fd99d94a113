-- SPDX-License-Identifier: Apache-2.0 OR MIT
-- Whether anybody looks at fields of a protocol: the pane of details, a filter, a column. Else only what is counted as expert
-- information, matched or put into columns is worth the time. Never touches a packet.

local asked = {}

local dissectors = {}

-- By the protocol's name, and the tree that a dissector was given.
function asked.is_for(name, root)
    dissectors[name] = dissectors[name] or Dissector.get(name)
    return root:referenced(dissectors[name])
end

-- Whether anybody looks at a field below this tree.
function asked.is_for_field(tree, field)
    return tree.visible or tree:referenced(field)
end

return asked
