-- Reads the beginning of a response, for the access log. Nothing is held back.
--
-- For each stream, whether it is an error, by the events in its first 4 KiB, in 4 chunks. Servers send
-- such an event if they fail after status 200.
--
-- The ID of a response of the Responses API that its server keeps: the body's "id" or, of a
-- stream, "id" in the "response" of the first event. The picker asks for it by "keeps". Only the
-- first 16 KiB of a body are read, in 32 chunks: servers write the ID first.
local find, match, byte, sub, min = string.find, string.match, string.byte, string.sub, math.min
local limit, chunks, longest = 16384, 32, 256
local early, earlyChunks = 4096, 4
local QUOTE, BACKSLASH, COLON = 34, 92, 58

-- closing returns the end of the string that begins at pos; nil if it is not in this text.
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

-- First lines of error events (vLLM, SGLang, TGI, Anthropic's API, the Responses API,
-- llama.cpp). The text of tokens has no line breaks of its own.
local errors = {
  '\ndata:%s*{%s*"error"%s*:%s*[{"]', '\ndata:%s*{%s*"type"%s*:%s*"error"', '\ndata:%s*{%s*"object"%s*:%s*"error"',
  '\nevent:%s*error%s', '\nevent:%s*response%.failed%s', '\nerror:%s*{',
}
-- Fields of errors with a status, and with the name of a kind of errors.
local numbers, names = { "http_status_code", "code", "status_code" }, { "code", "error_type", "type" }

-- kinds returns an error's names; "" without any.
local function kinds(text, at)
  local found = {}
  for _, name in ipairs(names) do
    local n, pos = 0, at
    while n < 3 do
      local _, stop, kind = find(text, '"' .. name .. '"%s*:%s*"([%w_.-]+)"', pos)
      if not stop then break end
      n, pos, found[#found + 1] = n + 1, stop + 1, sub(kind, 1, 64)
    end
  end
  return table.concat(found, " ")
end

-- failed returns the position of an error event, and its code, or without a code its names;
-- nil without such an event or code.
local function failed(text)
  for _, line in ipairs(errors) do
    local at = find(text, line)
    if at then
      for _, name in ipairs(numbers) do
        local digits = match(text, '"' .. name .. '"%s*:%s*"?(%d%d%d)%D', at)
        if digits then return at, tonumber(digits), "" end
      end
      return at, nil, kinds(text, at)
    end
  end
end

function envoy_on_response(handle)
  local headers = handle:headers()
  if headers:get(":status") ~= "200" or headers:get("content-encoding") then return end
  local stream = find(headers:get("content-type") or "", "^text/event%-stream") ~= nil
  local pick = handle:streamInfo():dynamicMetadata():get("penstock")
  local keeps, judged = pick and pick["keeps"] == "true", not stream
  if not keeps and judged then return end
  local text, n = "", 0
  for chunk in handle:bodyChunks() do
    text, n = text .. chunk:getBytes(0, min(chunk:length(), limit - #text)), n + 1
    if not judged then
      local at, code, kind = failed("\n" .. text)
      judged = n >= earlyChunks or #text >= early or at and find(text, "\r?\n\r?\n", at)
      if at and judged then
        local found = handle:streamInfo():dynamicMetadata()
        found:set("penstock.stream", "error", true)
        if code then found:set("penstock.stream", "code", code) end
        if kind and kind ~= "" then found:set("penstock.stream", "kind", kind) end
      end
    end
    if keeps then
      local id, ended = read(text, stream)
      if id and id ~= "" then handle:streamInfo():dynamicMetadata():set("penstock.response", "id", id) end
      keeps = not (ended or n >= chunks or #text >= limit)
    end
    if judged and not keeps then return end
  end
end
