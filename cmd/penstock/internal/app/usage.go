package app

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/penstock-project/penstock/cmd/penstock/internal/debug"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/picker/usage"
	"github.com/penstock-project/penstock/translator/envoy"
	"github.com/penstock-project/penstock/translator/model"
)

// newUsage opens no database before an AccessPolicy decides about a request.
func newUsage(cfg Config, board *status.Board, objects *store.Store) *usage.Keeper {
	out := usage.Config{URL: cfg.UsageDB, Place: usagePlace, Now: clock(), Log: cfg.Log,
		Late: func(age time.Duration, why string) { reportUsage(board, objects, age, why) }}
	if cfg.StateDir != "" {
		out.Folder = usage.Folder(cfg.StateDir)
	}
	out.Process, _ = os.Hostname() // may be empty
	return usage.New(out)
}

// CountCut counts requests that ended because this process's Envoys ended.
func (a *App) CountCut() { a.usage.Cut() }

func usagePlace(cluster string) string {
	id, ok := model.ParseClusterID(cluster)
	switch {
	case !ok:
		return ""
	case !id.Pool().IsZero():
		return id.Pool().String()
	case id.Port > 0:
		return fmt.Sprintf("%s:%d", objectid.Join(id.Namespace, id.Name), id.Port)
	}
	return objectid.Join(id.Namespace, id.Name)
}

func reportUsage(board *status.Board, objects *store.Store, age time.Duration, why string) {
	var reports []report.Report
	if why != "" {
		for _, p := range store.AccessPolicies.All(objects.View()) {
			owner := store.AccessPolicies.Ref(p)
			reports = append(reports, report.Report{Owner: owner, Findings: []report.Finding{{
				Severity: report.Warning, Owner: owner, Field: "spec.usage",
				Problem: fmt.Sprintf("usage has waited for its database for %s: %s", age.Round(time.Minute), why),
				Fix: "free the disk of the state folder, or see that the database of --usage-db is reached: requests " +
					"are served, and their counts are written then",
			}}})
		}
	}
	board.Replace(status.Usage, reports...)
}

func (a *App) usagePage(w http.ResponseWriter, r *http.Request) {
	q, err := UsageQuery(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	until := clock()()
	if r.URL.Query().Get(UsageNow) == "" {
		select {
		case <-time.After(usageDelay):
		case <-r.Context().Done():
		}
	}
	answer := a.usage.Read(r.Context(), q)
	answer.Until = until.Unix()
	debug.WriteJSON(w, answer)
}

// usageDelay is longer than Envoy delays its access log entries.
const usageDelay = 4 * envoy.UsageInterval

// UsageNow is a parameter of the usage page, with which it does not wait for the last requests.
const UsageNow = "now"

// UsageQuery reads the parameters of the usage page.
func UsageQuery(v url.Values) (q usage.Query, err error) {
	if by := v.Get("by"); by != "" {
		q.By = slices.Collect(strings.SplitSeq(by, ","))
	}
	if q.Since, err = time.ParseDuration(cmp.Or(v.Get("since"), "24h")); err != nil {
		return q, err
	}
	return q, q.Check()
}
