package api

import (
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/cluster"
	"github.com/millrace/millrace/broker/internal/settings"
)

// DescribeConfigs (key 32), versions 1 to 4.
//
// KIP-226 (sources and synonyms), KIP-569 (types and documentation, version 3).
//
// Topics and this broker can be described. The broker of the empty name stands
// for settings of all brokers that were changed while they ran, of which there
// are none: settings of brokers cannot be changed that way.
//
// A question that is asked twice is answered once.
//
// Errors of a resource: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION;
// INVALID_REQUEST for another broker's id and for other kinds of resources.
func (s *Service) describeConfigs(r *Request, in *kmsg.DescribeConfigsRequest, reply Reply) {
	resp := in.ResponseKind().(*kmsg.DescribeConfigsResponse)
	type question struct {
		kind        kmsg.ConfigResourceType
		name, names string
	}
	in.Resources = distinct(in.Resources, func(r *kmsg.DescribeConfigsRequestResource) question {
		return question{r.ResourceType, r.ResourceName, strings.Join(r.ConfigNames, ",")}
	})
	for i := range in.Resources {
		asked := &in.Resources[i]
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = asked.ResourceType, asked.ResourceName
		entries, err := s.entries(asked)
		out.ErrorCode, out.ErrorMessage = errorCode(err), errorText(err)
		for _, e := range entries {
			if len(asked.ConfigNames) == 0 || slices.Contains(asked.ConfigNames, e.Name) {
				out.Configs = append(out.Configs, describeSetting(in, e))
			}
		}
		resp.Resources = append(resp.Resources, out)
	}
	reply(resp)
}

// entries are the settings of a resource.
func (s *Service) entries(asked *kmsg.DescribeConfigsRequestResource) ([]settings.Entry, error) {
	switch asked.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		if err := cluster.CheckTopicName(asked.ResourceName); err != nil {
			return nil, err
		}
		t, err := topicRef{name: asked.ResourceName}.find(s.Cluster.Image())
		if err != nil {
			return nil, err
		}
		return s.Cluster.DescribeTopic(t), nil
	case kmsg.ConfigResourceTypeBroker:
		if asked.ResourceName == "" {
			return nil, nil
		}
		id, err := strconv.ParseInt(asked.ResourceName, 10, 32)
		if err != nil {
			return nil, refusal(kerr.InvalidRequest, "Broker id must be an integer, but it is: %s", asked.ResourceName)
		}
		if int32(id) != int32(s.BrokerID) {
			return nil, refusal(kerr.InvalidRequest, "Unexpected broker id, expected %d, but received %d", s.BrokerID, id)
		}
		return s.Settings.Describe(), nil
	}
	return nil, refusal(kerr.InvalidRequest, "Unsupported resource type: %s", asked.ResourceType)
}

// describeSetting describes one setting, with as much as was asked for.
func describeSetting(in *kmsg.DescribeConfigsRequest, e settings.Entry) kmsg.DescribeConfigsResponseResourceConfig {
	out := kmsg.NewDescribeConfigsResponseResourceConfig()
	out.Name, out.ReadOnly, out.Source = e.Name, !e.Dynamic, kmsg.ConfigSource(e.Source)
	out.ConfigType = kmsg.ConfigType(e.Type)
	if e.Set {
		out.Value = &e.Value
	}
	if in.IncludeSynonyms {
		for _, from := range e.From {
			syn := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			syn.Name, syn.Value, syn.Source = from.Name, new(from.Value), kmsg.ConfigSource(from.Source)
			out.ConfigSynonyms = append(out.ConfigSynonyms, syn)
		}
	}
	if in.IncludeDocumentation {
		out.Documentation = new(document(e.Definition))
	}
	return out
}

// document is the documentation of a setting together with its valid values.
func document(d *settings.Definition) string {
	if d.Valid == "" {
		return d.Doc
	}
	return d.Doc + " Valid values: " + d.Valid + "."
}
