-- Reads the ID of a response of the Responses API that its server keeps: the body's "id" or, of a
-- stream, "id" in the "response" of the first event. The picker asks for it by "keeps", and the
-- access log reports it. Nothing is held back. Only the first 16 KiB of a body are read, in 32
-- chunks: servers write the ID first.
local find, byte, sub, min = string.find, string.byte, string.sub, math.min
local limit, chunks, longest = 16384, 32, 256
local QUOTE, BACKSLASH, COLON = 34, 92, 58

-- closing is where the string that begins at pos ends; nil: not in this text.
local function closing(text, pos)
  while true do
    local at = find(text, '["\\]', pos)
    if not at then return nil end
    if byte(text, at) == QUOTE then return at end
    pos = at + 2
  end
end

-- read returns the ID, and whether the search has ended.
local function read(text, stream)
  local pos, depth, inside, key = 1, 0, not stream, nil
  if stream then
    local _, data = find(text, "\ndata:", 1, true)
    if sub(text, 1, 5) == "data:" then data = 5 end
    if not data then return nil, false end
    pos = data + 1
  end
  while true do
    local at = find(text, '["{}%[%]]', pos)
    if not at then return nil, false end
    local c = sub(text, at, at)
    pos = at + 1
    if c == '"' then
      local stop = closing(text, pos)
      if not stop then return nil, false end
      local value = sub(text, pos, stop - 1)
      local after = find(text, "[^ \t\r\n]", stop + 1)
      if not after then return nil, false end
      pos, key = stop + 1, nil
      if byte(text, after) == COLON then
        local begins = find(text, "[^ \t\r\n]", after + 1)
        if not begins then return nil, false end
        key, pos = value, after + 1
        if key == "id" and inside and depth == (stream and 2 or 1) then
          local ends = byte(text, begins) == QUOTE and closing(text, begins + 1)
          if ends == nil then return nil, false end
          if not ends or ends - begins - 1 > longest then return nil, true end
          local id = sub(text, begins + 1, ends - 1)
          if find(id, "\\", 1, true) then return nil, true end
          return id, true
        end
        if byte(text, begins) ~= 123 then key = nil end
      end
    elseif c == "{" or c == "[" then
      if stream and depth == 1 then inside = key == "response" end
      depth, key = depth + 1, nil
    else
      depth, key = depth - 1, nil
      if depth <= 0 then return nil, true end
    end
  end
end

function envoy_on_response(handle)
  local pick = handle:streamInfo():dynamicMetadata():get("penstock")
  if not pick or pick["keeps"] ~= "true" then return end
  local headers = handle:headers()
  if headers:get(":status") ~= "200" or headers:get("content-encoding") then return end
  local stream = find(headers:get("content-type") or "", "^text/event%-stream") ~= nil
  local text, n = "", 0
  for chunk in handle:bodyChunks() do
    text, n = text .. chunk:getBytes(0, min(chunk:length(), limit - #text)), n + 1
    local id, ended = read(text, stream)
    if id and id ~= "" then handle:streamInfo():dynamicMetadata():set("penstock.response", "id", id) end
    if ended or n >= chunks or #text >= limit then return end
  end
end
