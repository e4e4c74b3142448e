-- Lifts the top-level "model" string out of a JSON body into x-gateway-model-name, and has the route chosen again.
-- One pass; long strings (prompts) are skipped by plain searches for quotes. It reads no more JSON than it must: what is
-- not an object, or has no model that is a string, gets no header, and the routes decide what becomes of it.
local find, byte, sub, char = string.find, string.byte, string.sub, string.char
local floor, tonumber = math.floor, tonumber

local function utf8(c)
  if c < 0x80 then return char(c) end
  if c < 0x800 then return char(0xC0 + floor(c / 0x40), 0x80 + c % 0x40) end
  if c < 0x10000 then return char(0xE0 + floor(c / 0x1000), 0x80 + floor(c / 0x40) % 0x40, 0x80 + c % 0x40) end
  return char(0xF0 + floor(c / 0x40000), 0x80 + floor(c / 0x1000) % 0x40, 0x80 + floor(c / 0x40) % 0x40, 0x80 + c % 0x40)
end

local plain = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }

-- text is the decoded text of a JSON string: a key written "mod\u0065l" is the model too, for any server behind us.
local function text(raw)
  if not find(raw, "\\", 1, true) then return raw end
  local out, pos = "", 1
  while true do
    local at = find(raw, "\\", pos, true)
    if not at then return out .. sub(raw, pos) end
    out = out .. sub(raw, pos, at - 1)
    local c = sub(raw, at + 1, at + 1)
    pos = at + 2
    if c == "u" then
      local code = tonumber(sub(raw, pos, pos + 3), 16) or 0xFFFD
      pos = pos + 4
      if code >= 0xD800 and code < 0xDC00 and sub(raw, pos, pos + 1) == "\\u" then
        local low = tonumber(sub(raw, pos + 2, pos + 5), 16) or 0
        if low >= 0xDC00 and low < 0xE000 then
          code = 0x10000 + (code - 0xD800) * 0x400 + (low - 0xDC00)
          pos = pos + 6
        end
      end
      if code >= 0xD800 and code < 0xE000 then code = 0xFFFD end
      out = out .. utf8(code)
    else
      out = out .. (plain[c] or c)
    end
  end
end

-- closing finds the quote that ends a string whose first byte is at pos: one after an even number of backslashes.
local function closing(s, pos)
  local at = pos
  while true do
    local quote = find(s, '"', at, true)
    if not quote then return nil end
    local before = quote - 1
    while before >= pos and byte(s, before) == 92 do before = before - 1 end
    if (quote - 1 - before) % 2 == 0 then return quote end
    at = quote + 1
  end
end

-- scan returns the model, or nil, and whether there was more than one.
local function scan(s)
  local _, pos = find(s, "^%s*{")
  if not pos then return nil, false end
  local depth, model, seen = 1, nil, false
  pos = pos + 1
  while true do
    local quote = find(s, '"', pos, true) or #s + 1
    -- What stands between two strings: brackets count, numbers and commas do not. Cut out first: a search in the whole
    -- body for a bracket that is far away, again after each string, would take quadratic time.
    local between, at = sub(s, pos, quote - 1), 1
    while true do
      local bracket = find(between, "[%[%]{}]", at)
      if not bracket then break end
      local b = byte(between, bracket)
      if b == 123 or b == 91 then depth = depth + 1 else depth = depth - 1 end
      if depth == 0 then return model, false end
      at = bracket + 1
    end
    if quote > #s then return model, false end
    local finish = closing(s, quote + 1)
    if not finish then return model, false end
    pos = finish + 1
    if depth == 1 then
      local _, colon = find(s, "^%s*:", pos)
      -- Longer keys cannot be "model", however it is escaped.
      if colon and finish - quote <= 31 and text(sub(s, quote + 1, finish - 1)) == "model" then
        if seen then return nil, true end
        seen, pos = true, colon + 1
        local _, open = find(s, '^%s*"', pos)
        if open then
          finish = closing(s, open + 1)
          if not finish then return nil, false end
          pos = finish + 1
          -- The header takes 1,024 bytes, which are at most six times as many when all are escaped.
          if finish - open <= 6145 then model = sub(s, open + 1, finish - 1) end
        end
      end
    end
  end
end

function envoy_on_request(handle)
  local headers = handle:headers()
  local content = (headers:get("content-type") or ""):lower()
  if headers:get("upgrade") or find(content, "^application/grpc") or find(content, "^multipart/") then return end
  local body = handle:body()
  if not body or body:length() == 0 then return end
  local model, twice = scan(body:getBytes(0, body:length()))
  if twice then
    handle:respond({ [":status"] = "400", ["content-type"] = "text/plain" }, "the body names more than one model\n")
    return
  end
  model = model and text(model)
  if not model or model == "" or #model > 1024 or find(model, "[%z\1-\31\127]") then return end
  handle:headers():replace("x-gateway-model-name", model) -- the headers from before the body came are out of scope
  handle:clearRouteCache()
end
