package members

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

type figures struct {
	mu            sync.Mutex
	control, data requests
	longest       time.Duration // longest time from sending a request after a loss to the end of its answer
	ended, failed int
}

// requests counts requests. excepted are failures that the loss itself may cause; failed are all
// other failures.
type requests struct{ sent, failed, excepted int }

func (r *requests) add(o requests) {
	r.sent += o.sent
	r.failed += o.failed
	r.excepted += o.excepted
}

func (f *figures) controlled(r requests) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.control.add(r)
}

func (f *figures) lost(r requests, longest time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.data.add(r)
	f.longest = max(f.longest, longest)
}

// experiment records a test's result. A test may fail without a failed request.
func (f *figures) experiment(failed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended++
	if failed {
		f.failed++
	}
}

func (f *figures) print(w io.Writer) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended == 0 {
		return nil
	}
	lines := json.NewEncoder(w)
	for _, line := range []struct {
		Name  string  `json:"name"`
		Value float64 `json:"value"`
		sent  int
	}{
		{"mc_failed_requests.control", float64(f.control.failed), f.control.sent},
		{"mc_failed_requests.control_of", float64(f.control.sent), f.control.sent},
		{"mc_failed_requests.data", float64(f.data.failed), f.data.sent},
		{"mc_failed_requests.data_of", float64(f.data.sent), f.data.sent},
		{"mc_failed_requests.data_excepted", float64(f.data.excepted), f.data.sent},
		{"mc_blackhole", f.longest.Seconds(), f.data.sent},
		{"mc_failed_requests.experiments", float64(f.ended), f.ended},
		{"mc_failed_requests.experiments_failed", float64(f.failed), f.ended},
	} {
		if line.sent == 0 {
			continue
		}
		if err := lines.Encode(line); err != nil {
			return err
		}
	}
	return nil
}
