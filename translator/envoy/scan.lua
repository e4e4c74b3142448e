-- Copies the top-level "model" string of a JSON body to x-gateway-model-name, and makes Envoy choose the route again.
-- One pass; long strings (prompts) are skipped by plain searches for quotes. It parses no more JSON than needed: a body
-- that is no object, or whose model is no string, gets no header, and the routes decide.
local find, byte, sub, char, lower, match, gsub =
  string.find, string.byte, string.sub, string.char, string.lower, string.match, string.gsub
local floor, max, min, tonumber = math.floor, math.max, math.min, tonumber

-- A scan runs on a worker thread, which serves other requests too. So its work is bounded: a string counts 4, a bracket, a
-- quote or a backslash that is looked at 1, and so do 16 bytes outside of strings. The limit is some 30 ms, about as long as
-- Envoy takes to receive the largest body. The bytes of strings cost next to nothing.
local limit = 2000000

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

-- closing finds the quote that ends a string whose first byte is at pos: one after an even number of backslashes. It
-- returns nil without one, or if the work, which it also returns, reaches the limit.
local function closing(s, pos, work)
  local at = pos
  while work < limit do
    local quote = find(s, '"', at, true)
    if not quote then return nil, work end
    local before, first = quote - 1, max(pos, quote - limit)
    while before >= first and byte(s, before) == 92 do before = before - 1 end
    work = work + quote - before
    if (quote - 1 - before) % 2 == 0 then return quote, work end
    at = quote + 1
  end
  return nil, work
end

-- nest returns the depth after the brackets of s from pos up to, but not including, stop. It ends at depth 0, or when the
-- work, which it returns too, reaches the limit.
local function nest(s, pos, stop, depth, work)
  if stop - pos <= 32 then -- as between nearly all strings
    for i = pos, stop - 1 do
      local b = byte(s, i)
      if b == 123 or b == 91 then depth = depth + 1 elseif b == 125 or b == 93 then depth = depth - 1 end
      if depth == 0 then break end
    end
    return depth, work
  end
  -- Cut out: a search in the whole body for a bracket that is far away, again after each string, would take quadratic time.
  -- Four searches for one character each take a tenth of the time of one for a set.
  local between, none = sub(s, pos, stop - 1), stop - pos + 1
  local curly, square = find(between, "{", 1, true) or none, find(between, "[", 1, true) or none
  local curlyEnd, squareEnd = find(between, "}", 1, true) or none, find(between, "]", 1, true) or none
  while work < limit do
    local at = min(curly, square, curlyEnd, squareEnd)
    if at == none then break end
    work = work + 1
    if at == curly then
      depth, curly = depth + 1, find(between, "{", at + 1, true) or none
    elseif at == square then
      depth, square = depth + 1, find(between, "[", at + 1, true) or none
    elseif at == curlyEnd then
      depth, curlyEnd = depth - 1, find(between, "}", at + 1, true) or none
    else
      depth, squareEnd = depth - 1, find(between, "]", at + 1, true) or none
    end
    if depth == 0 then break end
  end
  return depth, work
end

-- scan returns the model, or nil, and what is wrong: "twice" if there is more than one, "work" if it reached the limit. If
-- strict, "alike" if some server may take another key for model (in case, or with other characters, which it skips), and "more"
-- if strings follow the object.
local function scan(s, strict)
  local model, seen = nil, false
  local quote = find(s, '"', 1, true) or #s + 1
  local work = quote / 16
  if work >= limit then return nil, "work" end
  local _, pos = find(s, "^%s*{")
  if not pos then return nil end
  local depth = 1
  pos = pos + 1
  while true do
    depth, work = nest(s, pos, quote, depth, work)
    if work >= limit then return nil, "work" end
    if depth == 0 and quote <= #s and strict then return nil, "more" end
    if depth == 0 or quote > #s then return model end
    local open, finish = quote, nil
    finish, work = closing(s, open + 1, work)
    if not finish then return model, work >= limit and "work" or nil end
    pos = finish + 1
    quote = find(s, '"', pos, true) or #s + 1
    work = work + 4 + (quote - pos) / 16
    if work >= limit then return nil, "work" end
    -- Longer keys cannot be "model", however it is escaped.
    if depth == 1 and finish - open <= 31 then
      local _, colon = find(s, "^%s*:", pos)
      local key = colon and text(sub(s, open + 1, finish - 1))
      if strict and key and key ~= "model" and lower((gsub(key, "%W", ""))) == "model" then return nil, "alike" end
      if key == "model" then
        if seen then return nil, "twice" end
        seen, pos = true, colon + 1
        if find(s, '^%s*"', pos) then
          open = quote
          finish, work = closing(s, open + 1, work)
          if not finish then return nil, work >= limit and "work" or nil end
          -- The header takes 1,024 bytes, which are at most six times as many when all are escaped.
          if finish - open <= 6145 then model = sub(s, open + 1, finish - 1) end
          pos = finish + 1
          quote = find(s, '"', pos, true) or #s + 1
          work = work + (quote - pos) / 16
          if work >= limit then return nil, "work" end
        end
      end
    end
  end
end

-- decline answers in the form of OpenAI's API, or of Anthropic's.
local function decline(handle, status, code, message)
  local body = '{"error":{"message":"' .. message .. '","type":"invalid_request_error","param":null,"code":"' .. code .. '"}}\n'
  if find(handle:headers():get(":path") or "", "/v1/messages", 1, true) then
    local kind = status == "413" and "request_too_large" or "invalid_request_error"
    body = '{"type":"error","error":{"type":"' .. kind .. '","message":"' .. message .. '"}}\n'
  end
  handle:respond({ [":status"] = status, ["content-type"] = "application/json", ["x-penstock-reason"] = code }, body)
end

-- unlike reports why servers may read a body otherwise than this script; nil if all read the same. JSON has no byte 0, but
-- UTF-16 and UTF-32 do, which some servers detect.
local function unlike(headers, s)
  local coding = lower(headers:get("content-encoding") or "identity")
  if coding ~= "identity" then return "the body is encoded: send it without content-encoding" end
  local charset = match(lower(headers:get("content-type") or ""), 'charset%s*=%s*"?([^;,"%s]*)') or "utf-8"
  if find(s, "\0", 1, true) or charset ~= "utf-8" and charset ~= "utf8" and charset ~= "us-ascii" then
    return "the body is not JSON in UTF-8"
  end
end

-- lift sets the headers. It returns whether the request proceeds. Where a gate decides by the model (strict), a body that
-- servers may read otherwise is declined.
local function lift(handle)
  local headers = handle:headers()
  local strict = handle:filterContext():get("strict") == true
  local content = (headers:get("content-type") or ""):lower()
  if headers:get(":method") == "OPTIONS" then return true end -- the early gate lets CORS pass, and nothing is held for it
  if headers:get("upgrade") or find(content, "^application/grpc") or find(content, "^multipart/") then return true end
  local body = handle:body()
  if not body or body:length() == 0 then return true end
  local bytes = body:getBytes(0, body:length())
  headers = handle:headers() -- the ones from before the body came are out of scope
  local encoded = strict and unlike(headers, bytes)
  if encoded then
    decline(handle, "400", "invalid_body", encoded)
    return false
  end
  local model, wrong = scan(bytes, strict)
  if wrong == "twice" then
    decline(handle, "400", "invalid_model", "the body names more than one model")
    return false
  end
  if wrong == "alike" then
    decline(handle, "400", "invalid_model", "the body has a key that is model in another case, or with other characters")
    return false
  end
  if wrong == "more" then
    decline(handle, "400", "invalid_model", "the body has more than one JSON object")
    return false
  end
  if wrong == "work" then
    decline(handle, "413", "body_too_large", "the body has too many parts for its model to be found: send fewer strings, brackets and escaped quotes")
    return false
  end
  model = model and text(model)
  if not model or model == "" or #model > 1024 or find(model, "[%z\1-\31\127]") then return true end
  headers:replace("x-gateway-model-name", model)
  if strict and (content == "" or content == "application/json" or find(content, "^application/json%s*;[^,]*$")) then
    headers:replace("x-penstock-model", model)
  end
  return true
end

function envoy_on_request(handle)
  if not lift(handle) then return end
  handle:streamInfo():dynamicMetadata():set("penstock.model", "scanned", true)
  handle:clearRouteCache()
end
