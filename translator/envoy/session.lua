-- Keeps a client at an exporting cluster of an import, by its route's cookie or header: the time of the
-- session's first request in Unix seconds, its ID, and the cluster's ID. The hop to the cluster is set like
-- a pick. Pickers receive the session's ID, and keep it at a server.
local match, gmatch, format, floor = string.match, string.gmatch, string.format, math.floor
local pick, longest = "x-gateway-destination-endpoint", 128

-- named is the client's session; nil without one.
local function named(headers, context)
  if context:get("header") then return headers:get(context:get("header")) end
  for pair in gmatch(headers:get("cookie") or "", "[^;]+") do
    local name, value = match(pair, "^%s*([^=]*)=(.*)$")
    if name == context:get("cookie") then return match(value, '^"?([^"]*)') end
  end
end

-- known reads a session that has not ended.
local function known(headers, context, now)
  local text = named(headers, context)
  if not text or #text > longest then return nil end
  local began, id, cluster = match(text, "^(%d+)%.([%w-]+)%.(%x+)$")
  if not began or #began > 12 then return nil end
  began = tonumber(began)
  local ttl = context:get("ttl")
  if began > now + 60 or ttl and now - began >= ttl then return nil end -- another gateway's clock may be ahead
  return began, id, cluster
end

function envoy_on_request(handle)
  local headers, context = handle:headers(), handle:filterContext()
  local now = floor(handle:timestamp() / 1000)
  local began, id, cluster = known(headers, context, now)
  if not began then began, id = now, headers:get("x-request-id") end
  if not id then return end
  headers:replace("penstock-peer-session", id)
  if not headers:get("x-session-id") then headers:add("x-session-id", id) end
  local found = handle:streamInfo():dynamicMetadata()
  local value = format("%d.%s.", began, id)
  found:set("penstock.session", "value", value)
  local hops = context:get("hops")
  local hop = cluster and hops and hops[cluster]
  if cluster then found:set("penstock.session", "had", value .. cluster) end
  if not hop then return end
  headers:replace("penstock-peer-cluster", hop)
  found:set("envoy.lb", pick, hop)
end

-- serving is the ID of the cluster that served; nil if none of the import's did.
local function serving(context, found)
  if context:get("cluster") then return context:get("cluster") end
  local lb = found:get("envoy.lb")
  local hop = lb and lb[pick .. "-served"]
  for id, address in pairs(context:get("hops")) do
    if address == hop then return id end
  end
end

function envoy_on_response(handle)
  local headers, found = handle:headers(), handle:streamInfo():dynamicMetadata()
  local session, status = found:get("penstock.session"), tonumber(headers:get(":status"))
  if not session or not session["value"] or status == 429 or status >= 500 then return end
  local context = handle:filterContext()
  local cluster = serving(context, found)
  local value = cluster and session["value"] .. cluster
  if not value or value == session["had"] then return end
  if context:get("header") then
    headers:replace(context:get("header"), value)
    return
  end
  local cookie = context:get("cookie") .. "=" .. value .. "; Path=" .. context:get("path")
  if context:get("ttl") then
    local began = tonumber(match(value, "^%d+"))
    cookie = cookie .. format("; Max-Age=%d", context:get("ttl") - (floor(handle:timestamp() / 1000) - began))
  end
  headers:add("set-cookie", cookie .. "; HttpOnly")
end
