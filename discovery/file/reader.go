package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// Store receives the objects. *store.Store implements it.
type Store interface {
	Apply(ops ...store.Op) (store.Revision, error)
	Recall(ops ...store.Op)
}

// Config configures a Reader.
type Config struct {
	// Paths are folders, which are read recursively, or files with any name. At least one is
	// required.
	Paths []string
	Store Store
	// StateDir is the folder in which the last good form of each object is persisted. Load and Run
	// create the folder. "": nothing is persisted, and each change causes a scan of all files (see
	// sentinel).
	StateDir string
	Log      *slog.Logger // nil: slog.Default
	// OnPanic, if set, is called after a panic while reading a document, given as "file:line".
	OnPanic func(document string, value any, stack []byte)
	// Report, if set, receives all reports about the files whenever a report may have changed.
	// Calls do not overlap. A report without an owner has the findings that belong to no object.
	Report func([]report.Report)
	// Former, if set, returns the former targets of an AccessPolicy ("namespace/name") in the
	// store. They are persisted with the policy's last good form.
	Former func(policy string) []v1alpha1.FormerTarget
	// Debounce is how long a Reader waits after the last file event before it reads changed files.
	// 0: 5 ms.
	Debounce time.Duration
	// Poll is the interval of full scans, for file systems without events. Default 10 s.
	Poll time.Duration
}

// Reader reads files into a store, and follows their changes.
type Reader struct {
	cfg     Config
	catalog *catalog
	roots   []root
	synced  chan struct{}

	disk    *disk
	reading atomic.Bool

	work     sync.Mutex // held while files are read; guards the fields below
	loaded   bool
	files    map[string]*source
	journal  journal
	problems []mistake
	emptied  map[string]time.Time // when a file was first seen empty

	mu       sync.Mutex                             // guards the fields below; only the holder of work changes them
	claims   map[report.Ref][]claim                 // definitions of each object; the first is in use
	kept     map[report.Ref]keptObject              // the versions that the store has
	policies map[report.Ref]bool                    // the AccessPolicies in kept
	former   map[report.Ref][]v1alpha1.FormerTarget // persisted former targets of the policies
	plains   map[*kind]map[string]spot              // objects that are neither in claims nor in kept, by primary key

	invalid map[report.Ref]bool         // objects that are defined, invalid and not in the store; guarded by work
	closed  map[report.Ref]store.Object // the objects of closed.go that the store has; guarded by work

	parsing sync.Mutex // guards the fields below
	again   *disk      // reads files again for findLine
	text    struct {   // a cache: the file that findLine read last
		path string
		mark signature
		docs map[digest]string
	}
	last struct { // a cache: the document that findLine parsed last
		digest  digest
		node    *yaml.Node
		mistake *mistake
	}
}

type keptObject struct {
	*good
	path string
}

type source struct {
	path     string // path below a root, as the user gave the root
	mark     signature
	docs     []*document // sorted by line, without plain documents
	plains   []plainDocument
	free     []int32 // the positions in plains that have no document
	total    int     // the number of all documents
	unusable *mistake
}

func (s *source) unidentified() bool {
	return s.unusable != nil || slices.ContainsFunc(s.docs, func(d *document) bool { return d.unidentified })
}

// New makes a Reader. It reads nothing before Load or Run.
func New(cfg Config) (*Reader, error) {
	if len(cfg.Paths) == 0 || cfg.Store == nil {
		return nil, errors.New("file reader: no path or no store given")
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Report == nil {
		cfg.Report = func([]report.Report) {}
	}
	if cfg.Debounce <= 0 {
		cfg.Debounce = debounceQuiet
	}
	if cfg.Poll <= 0 {
		cfg.Poll = 10 * time.Second
	}
	r := &Reader{
		cfg: cfg, catalog: theCatalog(), synced: make(chan struct{}), disk: newDisk(), again: newDisk(),
		files: map[string]*source{}, invalid: map[report.Ref]bool{}, closed: map[report.Ref]store.Object{},
		claims: map[report.Ref][]claim{}, kept: map[report.Ref]keptObject{}, plains: map[*kind]map[string]spot{},
		emptied: map[string]time.Time{}, policies: map[report.Ref]bool{},
		former: map[report.Ref][]v1alpha1.FormerTarget{},
	}
	for _, p := range cfg.Paths {
		root, err := newRoot(p)
		if err != nil {
			return nil, err
		}
		r.roots = append(r.roots, root)
	}
	return r, nil
}

// Synced returns a channel that closes once all files have been read.
func (r *Reader) Synced() <-chan struct{} { return r.synced }

// Load reads all files once. It fails if a path of Config.Paths cannot be read, or if the store
// fails. It reports mistakes in files, but does not fail because of them. If StateDir has no object
// yet, Load also fails if it has no permission to read a file.
func (r *Reader) Load(ctx context.Context) error {
	for _, root := range r.roots {
		if err := Exist(root.path); err != nil {
			return err
		}
	}
	return r.sync(ctx, scanEverything)
}

// Exist returns an error for the first path that does not exist.
func Exist(paths ...string) error {
	for _, path := range paths {
		if _, err := newDisk().stat(path); err != nil {
			if cause := (*fs.PathError)(nil); errors.As(err, &cause) {
				err = cause.Err
			}
			return fmt.Errorf("configuration %s: %w; name a folder or file that exists", path, err)
		}
	}
	return nil
}

func (r *Reader) sync(ctx context.Context, next nextChanges) error {
	r.work.Lock()
	defer r.work.Unlock()
	r.disk.ctx = ctx
	defer r.watchdog()()
	affected := map[report.Ref]bool{}
	if !r.loaded {
		r.restore()
		r.recall()
		for ref := range r.kept {
			affected[ref] = true
		}
	}
	fresh, gone, problems := r.gather(next)
	if ctx.Err() != nil {
		return fmt.Errorf("configuration: %w", ctx.Err())
	}
	if !r.loaded && r.cfg.StateDir != "" && len(r.kept) == 0 {
		if err := permitted(fresh, problems); err != nil {
			return fmt.Errorf("configuration: %w", err)
		}
	}
	if err := r.readAll(ctx, fresh); err != nil {
		return err
	}
	if r.loaded && len(fresh) == 0 && len(gone) == 0 && slices.Equal(problems, r.problems) {
		r.persist(nil) // retries a failed write
		return nil
	}
	r.problems = problems
	ops, dirty, reports := r.take(fresh, gone, affected)
	if _, err := r.cfg.Store.Apply(ops...); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	r.cfg.Report(reports)
	if !r.loaded {
		r.loaded = true
		close(r.synced)
	}
	r.persist(r.withFormer(dirty))
	return nil
}

// stuckAfter is how long a read may last without beginning or ending a file system operation before
// the Reader is stuck.
const stuckAfter = 30 * time.Second

func (r *Reader) watchdog() (end func()) {
	r.disk.moved.Store(time.Now().UnixNano())
	r.reading.Store(true)
	return func() { r.reading.Store(false) }
}

// StuckMessage is the line of /healthz for a stuck Reader.
const StuckMessage = "the configuration files have been read without progress for half a minute, and no edit " +
	"takes effect: " +
	"restart this process"

// Stuck reports whether a read has made no progress for stuckAfter.
func (r *Reader) Stuck() bool {
	return r.reading.Load() && time.Since(time.Unix(0, r.disk.moved.Load())) > stuckAfter
}

func (r *Reader) take(fresh []*source, gone []string, affected map[report.Ref]bool) ([]store.Op, []report.Ref,
	[]report.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := slices.Clone(gone)
	for _, src := range fresh {
		changed = append(changed, src.path)
	}
	r.affectKept(changed, affected)
	for _, path := range gone {
		r.unclaim(path, affected)
		delete(r.files, path)
	}
	for _, src := range fresh {
		r.unclaim(src.path, affected)
		r.files[src.path] = src
		r.claim(src, affected)
	}
	ops, dirty := r.decide(affected)
	return ops, dirty, r.reports()
}

func (r *Reader) readAll(ctx context.Context, fresh []*source) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, src := range fresh {
		var before map[digest]*document
		if old := r.files[src.path]; old != nil {
			r.mu.Lock()
			r.expandAll(old)
			r.mu.Unlock()
			before = make(map[digest]*document, len(old.docs))
			for _, d := range old.docs {
				before[d.digest] = d
			}
		}
		for i, doc := range src.docs {
			if old := before[doc.digest]; old != nil {
				moved := *old
				moved.line, moved.number = doc.line, doc.number
				src.docs[i] = &moved
				continue
			}
			group.Go(func() error {
				err := r.readDocument(ctx, src.path, doc)
				doc.text = ""
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	return nil
}

func (r *Reader) readDocument(ctx context.Context, path string, doc *document) (err error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if r.cfg.OnPanic != nil {
			r.cfg.OnPanic(place(path, doc.line), v, debug.Stack())
		}
		*doc = document{text: doc.text, digest: doc.digest, line: doc.line, number: doc.number, unidentified: true}
		doc.mistakes = []mistake{{
			severity: report.Error, problem: "reading this document panics, which is a bug of Penstock",
			fix: "undo its last change, and report the stack that is in Penstock's log",
		}}
		doc.closeUnnamed(theCatalog())
		err = nil
	}()
	return doc.read(ctx, r.catalog)
}

// Locate returns where an object or its field is written, as "file:line". For an absent field, it
// returns the line of the innermost existing parent field. It returns "" for an object in no file.
func (r *Reader) Locate(ref report.Ref, field string) string {
	ref, field = withoutAccess(ref, field)
	r.mu.Lock()
	var c claim
	if list := r.claims[ref]; len(list) > 0 {
		c = list[0]
	} else if list := r.claims[withoutSecond(ref)]; len(list) > 1 {
		c = list[1]
	} else {
		c, _ = r.plainOf(ref)
	}
	kept := r.kept[ref]
	r.mu.Unlock()
	if c.object == nil {
		return kept.path
	}
	line := c.object.line
	if c.object.good == nil && kept.good != nil {
		return place(c.path, c.doc.line+line) // fields of the last good form have no lines
	}
	if field != "" {
		line = r.fieldLine(c, field)
	}
	return place(c.path, c.doc.line+line)
}

func (r *Reader) fieldLine(c claim, field string) int {
	r.parsing.Lock()
	defer r.parsing.Unlock()
	key := position{c.object.item, field}
	if line, ok := c.doc.lines[key]; ok {
		return line
	}
	line, found := r.findLine(c, field)
	if !found {
		return c.object.line
	}
	if c.doc.lines == nil || len(c.doc.lines) >= maxLines {
		c.doc.lines = map[position]int{}
	}
	c.doc.lines[key] = line
	return line
}

// The caller holds r.parsing.
func (r *Reader) findLine(c claim, field string) (line int, found bool) {
	if r.last.digest != c.doc.digest || r.last.node == nil {
		text := r.textOf(c.path, c.doc.digest)
		if text == "" {
			return 0, false
		}
		r.last.digest = c.doc.digest
		r.last.node, r.last.mistake = parseNode(text)
	}
	node := r.last.node
	if r.last.mistake != nil {
		return c.object.line, true
	}
	if c.object.item >= 0 {
		node = nodeAt(node, at("items", c.object.item))
	}
	if node == nil {
		return c.object.line, true
	}
	return lineOf(node, written(c.object.moved, field)), true
}

func place(path string, line int) string { return fmt.Sprintf("%s:%d", path, line) }

func (r *Reader) reports() []report.Report {
	by := map[report.Ref][]report.Finding{}
	add := func(owner report.Ref, path string, doc *document, m mistake) {
		f := report.Finding{Severity: m.severity, Owner: owner, Source: path, Field: m.field, Problem: m.problem,
			Fix: m.fix}
		if doc != nil {
			f.Source = place(path, doc.line+m.line)
			if m.first > 0 {
				f.Problem += fmt.Sprintf(" (first at line %d)", doc.line+m.first-1)
			}
		}
		by[owner] = append(by[owner], f)
	}
	for _, m := range r.problems {
		add(report.Ref{}, "", nil, m)
	}
	for _, path := range slices.Sorted(maps.Keys(r.files)) {
		src := r.files[path]
		if src.unusable != nil {
			add(report.Ref{}, path, nil, *src.unusable)
		}
		for _, doc := range src.docs {
			for _, m := range doc.mistakes {
				if m.broken && src.total > 1 {
					m.problem = fmt.Sprintf("document %d %s", doc.number, m.problem)
				}
				add(report.Ref{}, path, doc, m)
			}
			for _, o := range doc.objects {
				// The errors of the schema have no fixed order.
				found := slices.SortedStableFunc(slices.Values(o.mistakes), func(a, b mistake) int {
					return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.field, b.field))
				})
				for _, m := range append(found, r.superseded(doc, o)...) {
					add(o.ref, path, doc, m)
				}
			}
		}
	}
	out := make([]report.Report, 0, len(by))
	for _, ref := range slices.SortedFunc(maps.Keys(by), report.Ref.Compare) {
		out = append(out, report.Report{Owner: ref, Findings: by[ref]})
	}
	return out
}

func (r *Reader) superseded(doc *document, o *object) []mistake {
	list := r.claims[o.ref]
	switch {
	case o.kind == nil || len(list) == 0:
		return nil
	case list[0].doc != doc || list[0].object != o:
		first := list[0]
		if o.good != nil && first.object.good != nil && o.good.same(first.object.good) {
			return []mistake{
				{severity: report.Info, line: o.line,
					problem: "is defined twice, identically at " + place(first.path, first.doc.line+first.object.line)},
			}
		}
		return []mistake{{severity: report.Error, line: o.line,
			problem: "is defined twice; the definition at " + place(first.path, first.doc.line+first.object.line) +
				" is in use", fix: "remove one, or give it another name"}}
	case o.good == nil && r.kept[o.ref].good != nil:
		return []mistake{
			{severity: report.Warning, line: o.line,
				problem: "is invalid as written here; its last good version stays in use"},
		}
	}
	return nil
}

func clean(err error) string {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return strings.TrimSpace(err.Error())
}
