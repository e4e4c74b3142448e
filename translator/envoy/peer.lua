-- Restores the client's authority, which a member sends in addition to the pool's, and removes headers that only
-- members may read. Headers for the pool's picker stay: the route removes them.
--
-- The caller that a member's gate found becomes the caller here, as MEMBER:CALLER, as far as the ClusterSet believes
-- the member. The filter's context has, for each such member, what is believed. A caller of this cluster has a "/"
-- before any ":", so no member can name one.
local read = {
  ["penstock-peer-sender"] = true, ["penstock-peer-others"] = true, ["penstock-peer-attempt"] = true,
  ["penstock-peer-session"] = true,
}
local maxCaller, maxGroups, maxGroup, maxGroupsSize = 512, 32, 128, 1024
local gate = "envoy.filters.http.ext_authz"

-- one returns a header's value, or nil if it is missing, repeated or too long.
local function one(headers, name, longest)
  local value = headers:get(name)
  if value and value ~= "" and #value <= longest and headers:getNumValues(name) == 1 then return value end
end

-- sender returns the member that its certificate proves. TLS has verified the certificate before, and the filter rbac
-- has found the member's ID in it.
local function sender(handle)
  local ssl = handle:streamInfo():downstreamSslConnection()
  local ids = ssl and ssl:uriSanPeerCertificate() or {}
  return #ids == 1 and string.match(ids[1], "^spiffe://([a-z0-9-]+)/gateway$") or nil
end

local sequences = {
  "[\194-\223][\128-\191]", "\224[\160-\191][\128-\191]", "[\225-\236\238\239][\128-\191][\128-\191]",
  "\237[\128-\159][\128-\191]", "\240[\144-\191][\128-\191][\128-\191]",
  "[\241-\243][\128-\191][\128-\191][\128-\191]", "\244[\128-\143][\128-\191][\128-\191]",
}

-- text decodes a group. It returns nil if the result is too long, or has a control character or invalid UTF-8: Envoy
-- could not encode that in access logs.
local function text(group)
  local value = string.gsub(group, "%+", " ")
  value = string.gsub(value, "%%(%x%x)", function(c) return string.char(tonumber(c, 16)) end)
  local rest = value
  for _, sequence in ipairs(sequences) do rest = string.gsub(rest, sequence, "-") end
  if #value <= maxGroup and not string.find(rest, "[^\32-\126]") then return value end
end

local function believe(handle, headers, caller, groups)
  -- Gates write these characters alone (picker/authz).
  local context = caller and not string.find(caller, "[^%w@._:%%/-]") and handle:filterContext()
  local member = context and sender(handle)
  local trusted = member and context:get(member)
  if not trusted or not trusted["Owner"] then return end
  caller = member .. ":" .. caller
  local found = handle:streamInfo():dynamicMetadata()
  found:set(gate, "caller", caller)
  headers:replace("x-penstock-caller", caller)
  if groups and trusted["Groups"] then
    local list = {}
    for group in string.gmatch(groups, "[^,]+") do
      if #list < maxGroups then list[#list + 1] = text(group) end
    end
    if #list > 0 then found:set(gate, "groups", list) end
  end
end

function envoy_on_request(handle)
  local headers = handle:headers()
  local authority = headers:get("penstock-peer-authority")
  local caller = one(headers, "penstock-peer-caller", maxCaller)
  local groups = one(headers, "penstock-peer-groups", maxGroupsSize)
  local own = {}
  for name in pairs(headers) do
    if (string.sub(name, 1, 14) == "penstock-peer-" and not read[name]) or name == "x-envoy-original-host" then
      own[#own + 1] = name
    end
  end
  for _, name in ipairs(own) do
    headers:remove(name)
  end
  if authority and authority ~= "" then
    headers:replace(":authority", authority)
  end
  believe(handle, headers, caller, groups)
end
