package picker

import (
	"bytes"
	"strconv"

	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/schedule"
)

// Headers of a request's latency objective, in milliseconds: llm-d's, and the same without its name. If both are given, the last one
// counts.
const (
	ttftHeader      = "x-llm-d-slo-ttft-ms"
	tpotHeader      = "x-llm-d-slo-tpot-ms"
	plainTTFTHeader = "x-slo-ttft-ms"
	plainTPOTHeader = "x-slo-tpot-ms"
)

// objective reads the latency that a request asks for. Values that are no positive numbers are ignored.
func (pool *pool) objective(m *extproc.Message) (o schedule.Objective) {
	if !schedule.UsesObjective(pool.Strategy) {
		return o
	}
	m.Each(func(name, value []byte) {
		if bytes.HasSuffix(name, []byte("-ms")) { // few have it
			o = withObjective(o, string(name), value)
		}
	})
	return o
}

func withObjective(o schedule.Objective, name string, value []byte) schedule.Objective {
	switch name {
	case ttftHeader, plainTTFTHeader:
		o.TTFT = milliseconds(value, o.TTFT)
	case tpotHeader, plainTPOTHeader:
		o.TPOT = milliseconds(value, o.TPOT)
	}
	return o
}

// milliseconds reads a positive number, such as "250" or "12.5", and returns it in seconds. For other texts it returns otherwise.
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
