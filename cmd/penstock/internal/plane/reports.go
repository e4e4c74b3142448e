package plane

import (
	"sync"

	"github.com/penstock-project/penstock/discovery/report"
	"github.com/penstock-project/penstock/discovery/status"
)

// proxyReports puts what proxies refuse on the board, one source a proxy. It implements server.Reports.
type proxyReports struct {
	board *status.Board
	mu    sync.Mutex
}

func newProxyReports(b *status.Board) *proxyReports { return &proxyReports{board: b} }

// Refused implements server.Reports.
func (r *proxyReports) Refused(gateway, node string, reports []report.Report) {
	r.mu.Lock() // two streams of one node, old and new, come in order
	defer r.mu.Unlock()
	r.board.Replace("proxy "+gateway+" "+node, reports...)
}
