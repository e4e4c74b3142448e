-- Leaves the port out of a redirect's Location where it is the scheme's own. Envoy replaces the port of the request's
-- Host only by another one, so that it has to be written first.
function envoy_on_response(handle)
  local headers = handle:headers()
  local location = headers:get("location")
  if not location then return end
  location = location:gsub("^(https://[^/]+):443/", "%1/"):gsub("^(http://[^/]+):80/", "%1/")
  headers:replace("location", location)
end
