package envoy

import (
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
)

// modelHeader carries the model's name, for routes to match. It comes from the body and never from a client.
const modelHeader = "x-gateway-model-name"

// modelScanner is the Lua filter that lifts the model's name out of the body. Without code it does nothing.
func modelScanner() *luav3.Lua {
	return &luav3.Lua{}
}
