package endpointpicker

import "fmt"

// DynamoHeaders is a plugin of a document, and of none of its profiles: requests name the workers
// of Dynamo that were chosen.
const DynamoHeaders = "dynamo-headers"

// DynamoIDLabel of a server's pod or ModelServers entry has the number of its Dynamo worker, if
// that is not derived from the pod's name.
const DynamoIDLabel = "penstock.dev/dynamo-instance-id"

// Names of Dynamo's headers.
const (
	namesDynamo = "dynamo" // x-dynamo-worker-instance-id
	namesPlain  = "plain"  // x-worker-instance-id
	namesBoth   = "both"
)

// Dynamo are the parameters of dynamo-headers.
//
// +kubebuilder:object:generate=false
type Dynamo struct {
	// Names is dynamo, plain or both.
	Names string `json:"names"`
}

func (p *Dynamo) check() []Problem {
	switch p.Names {
	case namesDynamo, namesPlain, namesBoth:
		return nil
	}
	return []Problem{
		{
			Field:   "names",
			Problem: fmt.Sprintf("must be %s, %s or %s, is %q", namesDynamo, namesPlain, namesBoth, p.Names),
			Fix:     "write the form that Dynamo's frontends read, or remove it for " + namesDynamo,
		},
	}
}

// Headers returns the names of a header of Dynamo, such as HeaderWorkerID.
func (p *Dynamo) Headers(name string) []string {
	switch p.Names {
	case namesPlain:
		return []string{"x-" + name}
	case namesBoth:
		return []string{"x-dynamo-" + name, "x-" + name}
	}
	return []string{"x-dynamo-" + name}
}

// dynamo returns the parameters of the document's dynamo-headers; nil without.
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
