-- Holds a request back until its body is here: a picker that answers headers and body together (model.BodyWhole) gets the body in one piece.
-- Streams and bodies above the limit are not held.
function envoy_on_request(handle)
  local headers = handle:headers()
  local content = (headers:get("content-type") or ""):lower()
  if headers:get(":method") == "OPTIONS" then return end -- the early gate lets CORS pass
  if headers:get("upgrade") or string.find(content, "^application/grpc") then return end
  local length = tonumber(headers:get("content-length") or "")
  if string.find(content, "^multipart/") and (not length or length > 33554432) then return end
  handle:body()
end
