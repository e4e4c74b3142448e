package translator

import (
	"iter"
	"slices"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/xds/resource"
)

// tables has all tables. Each table reads only the store and tables that the func declare declares
// before it.
type tables struct {
	cfg    Config
	engine *graph.Engine

	gatewayTables
	poolTables
	routeTables
	budgetTables
	expressionTables
	policyTables
	hostTables
	gateTables
	listenerTables
	clusterTables
	hopTables
	peerTables

	resources []resourceTable
	reports   []reportTable
}

func declare(cfg Config) *tables {
	t := &tables{cfg: cfg, engine: graph.New()}
	t.declareGateways()
	t.declarePools()
	t.declarePolicyTrusts()
	t.declareRoutes()
	t.declareExpressions()
	t.declarePolicies()
	t.declareHosts()
	t.declareGates()
	t.declareExposures()
	t.declareListeners()
	t.declareHops()
	t.declarePeers()
	t.declareMembers()
	t.declareParents()
	t.declareClusters()
	t.declareSecrets()
	t.declareReports()
	t.declarePolicyReports()
	return t
}

func (t *tables) stored(kind string) []graph.Source[string] {
	return []graph.Source[string]{t.engine.Stored(kind, store.ByID)}
}

type encoded struct {
	resources []*resource.Resource
	err       error
}

func one(r *resource.Resource, err error) encoded {
	if err != nil {
		return encoded{err: err}
	}
	return encoded{resources: []*resource.Resource{r}}
}

func sameResources(a, b encoded) bool {
	return slices.EqualFunc(a.resources, b.resources, (*resource.Resource).Equal) && sameError(a.err, b.err)
}

func sameError(a, b error) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Error() == b.Error())
}

type resourceTable interface {
	changes(d *graph.Diff, each func(rowID, string, graph.Change[string, encoded]))
	all(r *graph.Reader) iter.Seq2[string, encoded]
}

type rowID struct {
	table string
	key   any
}

type resourceTableOf[K gatewayKey] struct{ *graph.Table[K, encoded] }

func declareResources[K gatewayKey](t *tables, table graph.Table[K, encoded]) *graph.Table[K, encoded] {
	table.Equal = sameResources
	out := graph.Declare(t.engine, table)
	t.resources = append(t.resources, resourceTableOf[K]{out})
	return out
}

func (t resourceTableOf[K]) changes(d *graph.Diff, each func(rowID, string, graph.Change[string, encoded])) {
	for _, c := range t.Changes(d) {
		gw := c.Key.of()
		each(rowID{t.Name, c.Key}, gw, graph.Change[string, encoded]{
			Key: gw, Old: c.Old, New: c.New, Had: c.Had, Has: c.Has,
		})
	}
}

func (t resourceTableOf[K]) all(r *graph.Reader) iter.Seq2[string, encoded] {
	return func(yield func(string, encoded) bool) {
		for key, row := range t.All(r) {
			if !yield(key.of(), row) {
				return
			}
		}
	}
}

type reportTable = *graph.Table[string, report.Report]

func (t *tables) declareReport(name string, sources []graph.Source[string],
	compute func(r *graph.Reader, key string) (report.Report, bool)) {
	t.reports = append(t.reports,
		graph.Declare(t.engine, graph.Table[string, report.Report]{
			Name: name, Order: order, Sources: sources, Compute: compute,
		}))
}
