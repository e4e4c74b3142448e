package request

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestResponseID_PathNamesIt(t *testing.T) {
	long := strings.Repeat("a", maxResponseID)
	for path, want := range map[string]string{
		"/v1/responses/resp_1":                    "resp_1",
		"/openai/v1/responses/resp_1/cancel":      "resp_1",
		"/v1/responses/resp_1?stream=true":        "resp_1",
		"/v1/responses/resp_1/input_items?limit=": "resp_1",
		"/v1/responses/%72esp_1":                  "resp_1",
		"/v1/responses/%zz":                       "",
		"/v1/responses/" + long:                   long,
		"/v1/responses/" + long + "a":             "",
		"/v1/responses":                           "",
		"/v1/responses/":                          "",
		"/v1/models":                              "",
	} {
		if got := ResponseInPath([]byte(path)); got != ResponseOf(want) {
			t.Errorf("%.40s: %v, want the ID of %.40q", path, got, want)
		}
	}
}

func TestResponseID_SurvivesJSON(t *testing.T) {
	id := ResponseOf("resp_1")
	raw, err := json.Marshal(id)
	var got ResponseID
	if err != nil || json.Unmarshal(raw, &got) != nil || got != id || strings.Contains(string(raw), "resp") {
		t.Errorf("%v is %s and then %v: %v; want the same, without its text in JSON", id, raw, got, err)
	}
	for _, bad := range []string{`""`, `"YQ"`, `"` + strings.Repeat("A", 1000) + `"`, `"?"`} {
		if json.Unmarshal([]byte(bad), &got) == nil && len(bad) < 100 {
			t.Errorf("%s is an ID, want an error", bad)
		}
	}
}
