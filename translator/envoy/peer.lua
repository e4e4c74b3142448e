-- Restores the client's authority, which a member sends in addition to the pool's, and removes headers that only
-- members may read. Headers for the pool's picker stay: the route removes them.
local read = {
  ["penstock-peer-sender"] = true, ["penstock-peer-others"] = true, ["penstock-peer-attempt"] = true,
  ["penstock-peer-session"] = true,
}

function envoy_on_request(handle)
  local headers = handle:headers()
  local authority = headers:get("penstock-peer-authority")
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
end
