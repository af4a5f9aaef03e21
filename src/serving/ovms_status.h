// The errors of servables that came from a config.json: each has a gRPC code, an HTTP status and a base text
// that clients of OpenVINO Model Server know. One table (ovms_status.cc) has them all.
//
//   return OvmsError(OvmsCode::kInvalidShape, "Expected: (1,10); Actual: (1,9); input name: b");
#pragma once

#include <string_view>

#include "base/status.h"

namespace braid {

enum class OvmsCode : unsigned char {
  // Lookup
  kModelNameMissing,
  kModelVersionMissing,
  kModelVersionNotLoadedAnymore,
  kModelVersionNotLoadedYet,
  kModelVersionInvalidFormat,
  kModelSpecMissing,
  kInvalidSignatureDef,
  kPipelineNameMissing,
  kPipelineNotLoadedYet,
  kPipelineNotLoadedAnymore,
  kGraphNameMissing,
  kGraphNotLoadedYet,
  kGraphNotLoadedAnymore,
  // Requests
  kInvalidNoOfInputs,
  kInvalidMissingInput,
  kInvalidUnexpectedInput,
  kInvalidNoOfShapeDimensions,
  kInvalidBatchSize,
  kInvalidShape,
  kInvalidPrecision,
  kInvalidValueCount,
  kInvalidContentSize,
  kInvalidMessageStructure,
  kInvalidInputFormat,
  kInvalidStringInput,
  kUnsupportedLayout,
  kImageParsingFailed,
  kInvalidNoOfChannels,
  kBinaryImagesResolutionMismatch,
  kStringValEmpty,
  kBytesContentsEmpty,
  kReshapeError,
  // Configuration and models
  kFileInvalid,
  kPathInvalid,
  kJsonInvalid,
  kCannotCompileModel,
  kNoModelVersionAvailable,
  kInternalInferenceError,
  kUnsupportedSerializationPrecision,
  kInternalError,
  kNotImplemented,
  // Pipelines
  kPipelineNameOccupied,
  kPipelineInvalidNodeLibrary,
  kPipelineMissingEntryOrExit,
  kPipelineNodeNameDuplicate,
  kPipelineMissingModel,
  kPipelineForbiddenModelDynamicParameter,
  kPipelineNotEnoughShapeDimensionsToDemultiply,
  kPipelineWrongNumberOfDimensionsToDemultiply,
  kPipelineDemultiplyCountDoesNotMatch,
  kPipelineWrongDimensionSizeToDemultiply,
  kPipelineTooLargeDimensionSizeToDemultiply,
  kPipelineDemultiplexerNoResults,
  kPipelineStringDemultiplicationUnsupported,
  kPipelineInconsistentShardDimensions,
  kPipelineGatherFromNotExistingNode,
  kPipelineGatherFromNotDemultiplexer,
  kPipelineWrongDemultiplexerGatherOrder,
  kPipelineMissingNode,
  kPipelineExitUsedAsDependency,
  kPipelineMissingModelInput,
  kPipelineInputConnectedTwice,
  kPipelineMissingDataSource,
  kPipelineMissingModelOutput,
  kPipelineNotAllInputsConnected,
  kPipelineCycleFound,
  kPipelineUnconnectedNodes,
  kPipelineAmbiguousInputMetadata,
  // Custom nodes
  kNodeLibraryLoadFailedOpen,
  kNodeLibraryLoadFailedSymbol,
  kNodeLibraryInitializeFailed,
  kNodeLibraryMetadataFailed,
  kNodeLibraryExecutionFailed,
  kNodeLibraryOutputsCorrupted,
  kNodeLibraryOutputsCorruptedCount,
  kNodeLibraryMissingOutput,
  kNodeLibraryOutputMissingName,
  kNodeLibraryInvalidPrecision,
  kNodeLibraryInvalidShape,
  kNodeLibraryInvalidContentSize,
  // REST
  kRestNotFound,
  kRestInvalidUrl,
  kRestUnsupportedMethod,
  kRestCouldNotParseVersion,
  kRestBodyNotAnObject,
  kRestPredictUnknownOrder,
  kRestInstancesNotAnArray,
  kRestNamedInstanceNotAnObject,
  kRestNoInstancesFound,
  kRestInstancesNotNamedOrNonamed,
  kRestCouldNotParseInstance,
  kRestInstancesBatchSizeDiffer,
  kRestInputsNotAnObject,
  kRestNoInputsFound,
  kRestCouldNotParseInput,
  kRestCouldNotParseOutput,
  kRestCouldNotParseParameters,
  kRestUnsupportedPrecision,
  kRestBinaryDataSizeInvalid,
  kRestBinaryBufferExceeded,
  kRestHeaderLengthExceeded,
  kRestHeaderLengthInvalid,
  kRestContentsFieldNotEmpty,
};

// "{base text}", or "{base text} - {details}".
Status OvmsError(OvmsCode code, std::string_view details = {});

}  // namespace braid
