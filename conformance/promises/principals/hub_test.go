package principals

import "testing"

// hub writes InferencePoolImports in a member's API server.
var hub = principal{"hub", func(testing.TB) []field { return nil }}
