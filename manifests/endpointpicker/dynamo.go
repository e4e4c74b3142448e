package endpointpicker

// DynamoHeaders is a type of plugins outside of profiles. With it, headers of requests name the
// chosen Dynamo workers.
const DynamoHeaders = "dynamo-headers"

// DynamoIDLabel is the label, on a server's pod or ModelServers entry, with the number of its
// Dynamo worker. The default number is derived from the pod's name.
const DynamoIDLabel = "penstock.dev/dynamo-instance-id"

const (
	namesDynamo = "dynamo" // x-dynamo-worker-instance-id
	namesPlain  = "plain"  // x-worker-instance-id
	namesBoth   = "both"
)

// Dynamo are the parameters of dynamo-headers.
type Dynamo struct {
	Names string `json:"names"`
}

func (p *Dynamo) check() (out found) {
	out.reject(p.Names != namesDynamo && p.Names != namesPlain && p.Names != namesBoth, "names",
		"write the form that Dynamo's frontends read, or remove it for "+namesDynamo,
		"must be %s, %s or %s, is %q", namesDynamo, namesPlain, namesBoth, p.Names)
	return out
}

// Headers returns the full names of a header of Dynamo. The parameter `name` is a constant such as
// HeaderWorkerID.
func (p *Dynamo) Headers(name string) []string {
	switch p.Names {
	case namesPlain:
		return []string{"x-" + name}
	case namesBoth:
		return []string{"x-dynamo-" + name, "x-" + name}
	}
	return []string{"x-dynamo-" + name}
}

func (r *resolver) dynamo() (first *Dynamo) {
	for _, name := range r.names {
		in := r.instances[name]
		switch p, ok := in.Parameters.(*Dynamo); {
		case ok && first != nil:
			r.wrong(in.field+".type", "keep one of them", "the document has %s already", DynamoHeaders)
		case ok:
			first = p
		}
	}
	return first
}
