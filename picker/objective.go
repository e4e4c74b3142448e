package picker

import (
	"strconv"

	"github.com/penstock-project/penstock/picker/schedule"
)

// Request headers with objectives in milliseconds: time to the first token (TTFT) and time per
// output token (TPOT). llm-d's headers take precedence over the plain ones.
const (
	ttftHeader      = "x-llm-d-slo-ttft-ms"
	tpotHeader      = "x-llm-d-slo-tpot-ms"
	plainTTFTHeader = "x-slo-ttft-ms"
	plainTPOTHeader = "x-slo-tpot-ms"
)

func (pool *pool) objective(header func(string) []byte) (o schedule.Objective) {
	if !schedule.UsesObjective(&pool.options) {
		return o
	}
	o.TTFT = milliseconds(header(ttftHeader), milliseconds(header(plainTTFTHeader), 0))
	o.TPOT = milliseconds(header(tpotHeader), milliseconds(header(plainTPOTHeader), 0))
	return o
}

func milliseconds(text []byte, otherwise float64) float64 {
	if len(text) == 0 || len(text) > 16 {
		return otherwise
	}
	n, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(n > 0 && n < 1e9) {
		return otherwise
	}
	return n / 1000
}
